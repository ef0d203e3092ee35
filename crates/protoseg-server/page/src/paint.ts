// The middle of the page: the photo in hand with its name, zoom, tools, and the first steps of a new project.

import { openPhoto } from "./actions";
import { Stage } from "./canvas";
import { readChoice, writeChoice } from "./choices";
import { Choices, h, icon, iconButton, setText } from "./dom";
import type { Gallery } from "./gallery";
import { classes, classOf, currentPhoto, on, setSetting, state } from "./store";
import { Tools } from "./tools";
import type { Mode, Tool } from "./types";
import { pickMask, pickPhotos } from "./upload";
import { words } from "./words";

export class PaintPanel {
  readonly element: HTMLElement;
  readonly stage = new Stage();
  readonly tools = new Tools(this.stage);
  private name = h("span", { class: "photo-name", id: "photo-name" });
  private hint = h("div", { class: "hint", hidden: true });
  private hintKey = "";
  private hintRevision = 0;
  private foot: HTMLElement;
  private chips = h("div", { class: "chips" });
  private size = h("input", { type: "range", min: -100, max: 100, step: 1, class: "small-range", id: "brush-size", "aria-label": words.tools.brushSize, title: `${words.tools.brushSize} [ ]` });
  private sizeText = h("output", { class: "size-text" });
  private legend = h("div", { class: "legend", hidden: true });

  constructor(gallery: Gallery, focusNewClass: () => void) {
    const go = (step: number) => {
      const next = gallery.neighbour(step);
      if (next !== null) openPhoto(next);
    };
    const toolChoices = new Choices<Tool>(
      words.tools.label,
      [
        { value: "brush", label: words.tools.brush, icon: "brush", tip: `${words.tools.brush} (B)` },
        { value: "polygon", label: words.tools.polygon, icon: "polygon", tip: `${words.tools.polygon} (P)` },
        { value: "rectangle", label: words.tools.rectangle, icon: "rectangle", tip: `${words.tools.rectangle} (R)` },
        { value: "magic", label: words.tools.magic, icon: "magic", tip: `${words.tools.magic} (M)` },
        { value: "hand", label: words.tools.hand, icon: "hand", tip: `${words.tools.hand} (H)` },
      ],
      (value) => setSetting("tool", value),
      "icons-only",
    );
    const modeChoices = new Choices<Mode>(
      words.modes.label,
      [
        { value: "add", label: words.modes.add, icon: "plus", tip: `${words.modes.addLong} (A)` },
        { value: "not", label: words.modes.not, icon: "not", tip: `${words.modes.notLong} (N)` },
        { value: "erase", label: words.modes.erase, icon: "erase", tip: `${words.modes.eraseLong} (E)` },
      ],
      (value) => setSetting("mode", value),
      "modes",
    );
    this.size.addEventListener("input", () => setSetting("brush", brushOf(Number(this.size.value))));
    const head = h(
      "div",
      { class: "stage-head" },
      iconButton("left", words.stage.previous, () => go(-1)),
      this.name,
      iconButton("right", words.stage.next, () => go(1)),
      h("span", { class: "grow" }),
      this.legend,
      iconButton("minus", words.stage.zoomOut, () => this.stage.zoom(0.8), "zoom"),
      iconButton("fit", words.stage.fit, () => this.stage.fit(), "zoom"),
      iconButton("plus", words.stage.zoomIn, () => this.stage.zoom(1.25), "zoom"),
    );
    const toolbar = h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": words.tools.label },
      toolChoices.element,
      iconButton("mask", words.tools.mask, pickMask),
      modeChoices.element,
      h("div", { class: "size" }, this.size, this.sizeText),
    );
    this.foot = h("div", { class: "stage-foot" }, toolbar);
    this.element = h(
      "section",
      { class: "paint", id: "panel-paint", "aria-label": words.tabs.paint },
      head,
      this.stage.element,
      this.foot,
      this.chips,
    );
    this.stage.covered = () => {
      const box = this.stage.element.getBoundingClientRect();
      // On a phone on its side the foot's parts are beside the stage, and it has no box of its own.
      const foot = this.foot.getBoundingClientRect();
      return [head.getBoundingClientRect().bottom - box.top, foot.height === 0 ? 0 : box.bottom - foot.top];
    };
    const settings = () => {
      toolChoices.set(state.tool);
      modeChoices.set(state.mode);
      this.drawSize();
      this.drawChips();
      this.drawHint();
      this.drawLegend();
    };
    on("settings", settings);
    on("project", () => {
      // So has who goes on painting.
      if (this.hintKey === "second" && state.changeRevision !== this.hintRevision) this.dismiss();
      this.drawChips();
      this.drawHint();
    });
    on("photos", () => (this.drawName(), this.drawHint()));
    on("current", () => {
      // Who goes to another photo has understood.
      if (this.hintKey === "second") this.dismiss();
      this.drawName();
      this.drawSize();
      this.drawHint();
    });
    settings();
    this.drawName();
    this.focusNewClass = focusNewClass;
  }

  private focusNewClass: () => void;

  private drawName(): void {
    setText(this.name, currentPhoto()?.name ?? "");
  }

  private drawSize(): void {
    const value = String(Math.round(sliderOf(state.brush)));
    if (this.size.value !== value) this.size.value = value;
    const text = words.tools.brushPixels(Math.max(1, Math.round(2 * this.tools.radius())));
    setText(this.sizeText, text);
    this.size.setAttribute("aria-valuetext", text);
  }

  /** On a phone the classes are in another tab, so the ones to paint with are here too. */
  private drawChips(): void {
    this.chips.replaceChildren(
      ...classes()
        .filter((item) => !item.base)
        .map((item) => {
          const chip = h("button", { type: "button", class: "chip", "aria-pressed": item.id === state.classId ? "true" : "false", onclick: () => setSetting("classId", item.id) }, h("i", {}), item.name);
          chip.style.setProperty("--class", item.color);
          return chip;
        }),
      h("button", { type: "button", class: "chip add", "aria-label": words.classes.add, onclick: () => this.focusNewClass() }, icon("plus"), words.classes.add),
    );
  }

  private drawLegend(): void {
    const { view } = state;
    this.legend.hidden = view !== "confidence" && view !== "changed";
    const ends = view === "confidence" ? [words.views.unsure, words.views.sure] : [words.views.gained, words.views.lost];
    this.legend.replaceChildren(h("span", {}, ends[0]), h("i", { class: view === "confidence" ? "ramp" : "ramp change" }), h("span", {}, ends[1]));
  }

  /** Says what to do next while a project is young. */
  private drawHint(): void {
    const item = classOf(state.classId) ?? classes().find((other) => !other.base);
    const own = classes().filter((other) => !other.base);
    const strokes = own.reduce((sum, other) => sum + other.painted_photos.length, 0);
    let key = "";
    if (!state.loaded || !state.project) key = "";
    else if (state.photos.length === 0) key = "photos";
    else if (own.length === 0) key = "class";
    else if (strokes === 0) key = `first-${item?.id}`;
    else if (strokes === 1 && readChoice("seen-second", "no") === "no") key = "second";
    if (key === this.hintKey) return;
    this.hintKey = key;
    this.hintRevision = state.changeRevision;
    this.hint.hidden = key === "";
    // Before there is anything to paint a hint is in the middle, later beside the tools, where it covers nothing.
    const isCentre = key === "photos" || key === "class";
    this.hint.className = isCentre ? "hint centre" : "hint";
    (isCentre ? this.element : this.foot).prepend(this.hint);
    const content =
      key === "photos"
        ? [
            h("h3", {}, words.gallery.emptyTitle),
            h("p", {}, words.gallery.emptyText),
            h("button", { type: "button", class: "primary", onclick: pickPhotos }, words.gallery.emptyButton),
          ]
        : key === "class"
          ? [
              h("h3", {}, words.stage.noClassTitle),
              h("p", {}, words.stage.noClassText),
              h("button", { type: "button", class: "primary", onclick: () => this.focusNewClass() }, words.classes.add),
            ]
          : key === "second"
            ? [
                h("h3", {}, words.stage.secondTitle),
                h("p", {}, words.stage.secondText),
                h("button", { type: "button", class: "link", onclick: () => this.dismiss() }, words.stage.dismiss),
              ]
            : [h("h3", {}, words.stage.firstTitle(item?.name ?? "")), h("p", {}, words.stage.firstText)];
    this.hint.replaceChildren(...content);
    this.stage.refit();
  }

  private dismiss(): void {
    writeChoice("seen-second", "yes");
    this.drawHint();
  }
}

// The slider goes from 0.2 % to 20 % of the longer side, and each step is felt alike.
const brushOf = (value: number) => 0.02 * 10 ** (value / 100);
const sliderOf = (brush: number) => 100 * Math.log10(brush / 0.02);
