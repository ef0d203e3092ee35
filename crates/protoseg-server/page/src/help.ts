// The help: how to work, and all shortcuts.

import { readChoice, writeChoice } from "./choices";
import { h, iconButton } from "./dom";
import { words } from "./words";

const text = words.helpDialog;
const keys = text.keys;

const rows: [string[], string][] = [
  [["B", "P", "R", "M", "H"], keys.tools],
  [["A", "N", "E"], keys.modes],
  [["[", "]"], keys.size],
  [["1", "…", "9", "C"], keys.classes],
  [["Ctrl Z", "Ctrl Shift Z"], keys.undo],
  [["V", "O"], keys.views],
  [[",", "."], keys.photos],
  [["L"], keys.leastSure],
  [["G"], keys.wide],
  [["+", "-", "0"], keys.zoom],
  [[keys.space], keys.pan],
  [[keys.rightButton], keys.right],
  [[keys.enter], keys.polygon],
  [[keys.arrows, keys.enter], keys.cursor],
  [[keys.escape], keys.cancel],
  [["?"], keys.help],
];

export class Help {
  readonly element: HTMLDialogElement;
  /** Shortcuts of a single key can get in the way of speech input, so they can be turned off. */
  single = readChoice("single", "on") === "on";

  constructor() {
    const box = h("input", {
      type: "checkbox",
      checked: this.single,
      onchange: () => {
        this.single = box.checked;
        writeChoice("single", this.single ? "on" : "off");
      },
    });
    this.element = h(
      "dialog",
      { class: "help", "aria-labelledby": "help-title" },
      h("header", {}, h("h2", { id: "help-title" }, text.title), iconButton("close", words.close, () => this.element.close())),
      h("ol", { class: "steps" }, ...text.how.map((line) => h("li", {}, line))),
      h("h3", {}, text.shortcuts),
      h(
        "dl",
        { class: "shortcuts" },
        ...rows.map(([names, meaning]) => h("div", {}, h("dt", {}, ...names.map((name) => (name === "…" ? "…" : h("kbd", {}, name)))), h("dd", {}, meaning))),
      ),
      h("label", { class: "check-label" }, box, text.single),
    );
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  open(): void {
    if (!this.element.open) this.element.showModal();
  }
}
