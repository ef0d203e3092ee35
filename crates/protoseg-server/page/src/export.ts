// The menu that takes results out of the studio, and the commands that do the same in a script.

import { api } from "./api";
import { h, icon } from "./dom";
import { notice, report, say } from "./status";
import { words } from "./words";

const text = words.exportMenu;

const kinds = [
  { file: "pack", name: text.pack, about: text.packLong },
  { file: "masks.zip", name: text.masks, about: text.masksLong },
  { file: "coco.json", name: text.coco, about: text.cocoLong },
  { file: "report.html", name: text.report, about: text.reportLong },
  { file: "project.zip", name: text.project, about: text.projectLong },
];

export class ExportMenu {
  readonly element: HTMLDivElement;
  private button: HTMLButtonElement;
  private menu: HTMLDivElement;
  private commands = h("pre", { tabindex: 0 });

  constructor() {
    this.button = h(
      "button",
      { type: "button", class: "bar-button", id: "export", "aria-haspopup": "dialog", "aria-expanded": "false", title: text.long, onclick: () => this.toggle() },
      icon("download"),
      h("span", { class: "bar-text" }, text.title),
    );
    this.menu = h(
      "div",
      { class: "popover", role: "dialog", "aria-label": text.long, hidden: true },
      ...kinds.map((kind) =>
        h(
          "button",
          { type: "button", class: "export-row", "data-export": kind.file, onclick: () => void this.save(kind.file, kind.name) },
          icon("download"),
          h("span", {}, h("strong", {}, kind.name), h("small", {}, kind.about)),
        ),
      ),
      h(
        "div",
        { class: "commands" },
        h("div", { class: "commands-head" }, h("h3", {}, text.commands), h("button", { type: "button", class: "link", id: "copy-commands", onclick: () => void this.copy() }, text.copy)),
        this.commands,
      ),
    );
    this.element = h("div", { class: "export" }, this.button, this.menu);
    this.menu.addEventListener("keydown", (event) => this.walk(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.element.contains(event.target as Node)) this.close(false);
    });
    this.element.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !this.element.contains(event.relatedTarget as Node)) this.close(false);
    });
  }

  /** Says whether there was something to close. */
  close(giveFocus = true): boolean {
    if (this.menu.hidden) return false;
    this.menu.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    if (giveFocus) this.button.focus();
    return true;
  }

  private toggle(): void {
    if (this.close()) return;
    this.menu.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.menu.querySelector("button")?.focus();
    void api
      .commands()
      .then((answer) => (this.commands.textContent = answer.commands.join("\n")))
      .catch(report);
  }

  private walk(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const rows = [...this.menu.querySelectorAll<HTMLButtonElement>(".export-row")];
    const at = rows.indexOf(document.activeElement as HTMLButtonElement);
    rows[(at + step + rows.length) % rows.length]?.focus();
    event.preventDefault();
  }

  private async save(file: string, name: string): Promise<void> {
    this.close();
    const ready = notice(text.preparing(name));
    try {
      const answer = await api.download(file);
      const link = h("a", { href: URL.createObjectURL(answer.blob), download: answer.name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      ready();
      notice(text.done(answer.name));
    } catch (error) {
      ready();
      report(error);
    }
  }

  private async copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.commands.textContent ?? "");
      say(text.copied);
      notice(text.copied);
    } catch {
      // No access to the clipboard: the text is chosen, ready for Ctrl+C.
      getSelection()?.selectAllChildren(this.commands);
    }
  }
}
