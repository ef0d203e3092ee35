// Where things are: photos, the photo in hand and classes side by side, or one at a time on a phone.

import { readChoice, writeChoice } from "./choices";
import { h, icon } from "./dom";
import { words } from "./words";

export type Tab = "photos" | "paint" | "classes";

export class Layout {
  readonly root: HTMLDivElement;
  private tabs = new Map<Tab, HTMLButtonElement>();
  private splitter: HTMLDivElement;
  private width = Number(readChoice("gallery", "372"));

  constructor(bar: HTMLElement, gallery: HTMLElement, paint: HTMLElement, side: HTMLElement) {
    this.splitter = h("div", { class: "splitter", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": words.gallery.splitter });
    const nav = h("nav", { class: "tabs", "aria-label": words.menu });
    for (const [tab, name] of [["photos", "photos"], ["paint", "brush"], ["classes", "layers"]] as const) {
      const button = h("button", { type: "button", "data-tab": tab, onclick: () => this.show(tab) }, icon(name), h("span", {}, words.tabs[tab]));
      this.tabs.set(tab, button);
      nav.append(button);
    }
    const main = h("main", { class: "main" }, gallery, this.splitter, paint, side);
    this.root = h("div", { class: "studio" }, bar, main, nav);
    this.show("paint");
    this.setWidth(this.width);
    this.bindSplitter();
  }

  show(tab: Tab): void {
    this.root.dataset["tab"] = tab;
    for (const [key, button] of this.tabs) {
      if (key === tab) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
  }

  toggleWide(): void {
    this.root.classList.toggle("wide");
  }

  /** Back from large photos. Says whether they were. */
  narrow(): boolean {
    const was = this.root.classList.contains("wide");
    this.root.classList.remove("wide");
    return was;
  }

  private setWidth(width: number): void {
    this.width = Math.round(Math.min(Math.max(180, width), Math.max(180, window.innerWidth - 620)));
    this.root.style.setProperty("--gallery", `${this.width}px`);
    this.splitter.setAttribute("aria-valuenow", String(this.width));
    this.splitter.setAttribute("aria-valuemin", "180");
    this.splitter.setAttribute("aria-valuemax", String(Math.max(180, window.innerWidth - 620)));
    writeChoice("gallery", String(this.width));
  }

  private bindSplitter(): void {
    const { splitter } = this;
    splitter.addEventListener("pointerdown", (event) => splitter.setPointerCapture(event.pointerId));
    splitter.addEventListener("pointermove", (event) => {
      if (splitter.hasPointerCapture(event.pointerId)) this.setWidth(event.clientX - this.root.getBoundingClientRect().left);
    });
    splitter.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
      if (step === undefined) return;
      this.setWidth(this.width + step);
      event.preventDefault();
      event.stopPropagation();
    });
  }
}
