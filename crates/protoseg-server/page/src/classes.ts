// The classes: choose, add, name, colour, hide, remove.

import { addClass, changeClass, removeClass } from "./actions";
import { h, icon, iconButton } from "./dom";
import { classes, classOf, on, setSetting, state } from "./store";
import type { ClassInfo } from "./types";
import { words } from "./words";

export class ClassPanel {
  readonly element: HTMLElement;
  private list = h("ul", { class: "class-list", "aria-label": words.classes.list });
  private empty = h("div", { class: "class-empty" });
  private input: HTMLInputElement;
  private renaming: number | null = null;

  constructor() {
    this.input = h("input", {
      type: "text",
      id: "new-class",
      maxlength: 60,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: words.classes.placeholder,
      "aria-label": words.classes.add,
    });
    const form = h(
      "form",
      {
        class: "class-form",
        onsubmit: (event: Event) => {
          event.preventDefault();
          const name = this.input.value;
          if (name.trim() === "") return;
          this.input.value = "";
          void addClass(name).then((added) => added && this.added());
        },
      },
      this.input,
      h("button", { type: "submit", class: "icon-button", "aria-label": words.classes.addButton, title: words.classes.addButton }, icon("plus")),
    );
    this.element = h(
      "section",
      { class: "classes", "aria-labelledby": "classes-title" },
      h("header", { class: "panel-head" }, h("h2", { id: "classes-title" }, words.classes.title)),
      this.empty,
      this.list,
      form,
    );
    on("project", () => this.draw());
    on("settings", () => this.draw());
    this.drawEmpty();
  }

  /** Told when a class was added: painting comes next. */
  added: () => void = () => {};

  focusNew(): void {
    this.input.focus();
  }

  private drawEmpty(): void {
    const none = state.project !== null && classes().length === 0;
    this.empty.hidden = !none;
    if (none && this.empty.childElementCount === 0) {
      this.empty.append(
        h("p", {}, words.classes.emptyText),
        h("ol", { class: "steps" }, ...words.classes.steps.map((step) => h("li", {}, step))),
      );
    }
  }

  private draw(): void {
    this.drawEmpty();
    if (this.renaming !== null && classOf(this.renaming)) return;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["focus"];
    const open = this.list.querySelector<HTMLInputElement>("input[type=color]:focus");
    if (open && classOf(Number(open.dataset["id"]))) return;
    this.list.replaceChildren(...classes().map((item, index) => this.row(item, index)));
    if (focused) this.list.querySelector<HTMLElement>(`[data-focus="${focused}"]`)?.focus();
  }

  private row(item: ClassInfo, index: number): HTMLLIElement {
    const chosen = item.id === state.classId;
    const colour = h("input", {
      type: "color",
      value: item.color,
      "data-id": item.id,
      "data-focus": `colour-${item.id}`,
      "aria-label": words.classes.colourOf(item.name),
      title: words.classes.colourOf(item.name),
      onchange: () => {
        const value = colour.value;
        colour.blur();
        changeClass(item.id, { color: value });
      },
    });
    const name = h(
      "button",
      {
        type: "button",
        class: "class-name",
        "data-focus": `name-${item.id}`,
        "aria-pressed": chosen ? "true" : "false",
        "aria-label": words.classes.choose(item.name, item.painted_photos.length),
        title: item.name,
        onclick: () => setSetting("classId", item.id),
        ondblclick: () => this.rename(item, row),
        onkeydown: (event: KeyboardEvent) => event.key === "F2" && this.rename(item, row),
      },
      h("span", { class: "class-text" }, item.name),
      h("span", { class: "class-count" }, item.base ? words.classes.base : words.classes.paintedIn(item.painted_photos.length)),
    );
    const hide = iconButton(item.hidden ? "eyeOff" : "eye", item.hidden ? words.classes.unhide(item.name) : words.classes.hide(item.name), () =>
      changeClass(item.id, { hidden: !item.hidden }),
    );
    hide.dataset["focus"] = `hide-${item.id}`;
    const row: HTMLLIElement = h(
      "li",
      { class: `class-row${chosen ? " chosen" : ""}${item.hidden ? " hidden-class" : ""}`, "data-class": item.id },
      colour,
      name,
      index < 9 ? h("kbd", { "aria-hidden": "true" }, String(index + 1)) : null,
      item.base ? null : iconButton("pencil", words.classes.rename(item.name), () => this.rename(item, row), "quiet"),
      hide,
      item.base ? null : iconButton("trash", words.classes.remove(item.name), () => removeClass(item.id), "quiet"),
    );
    return row;
  }

  private rename(item: ClassInfo, row: HTMLLIElement): void {
    if (item.base) return;
    this.renaming = item.id;
    const input = h("input", { type: "text", class: "rename", maxlength: 60, value: item.name, "aria-label": words.classes.nameOf(item.name) });
    let over = false;
    const end = (keep: boolean) => {
      if (over) return;
      over = true;
      this.renaming = null;
      const name = input.value.trim();
      if (keep && name !== "" && name !== item.name) changeClass(item.id, { name });
      this.draw();
      this.list.querySelector<HTMLElement>(`[data-focus="name-${item.id}"]`)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
      event.stopPropagation();
    });
    input.addEventListener("blur", () => end(true));
    row.querySelector(".class-name")?.replaceWith(input);
    input.focus();
    input.select();
  }
}
