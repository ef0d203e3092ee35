// The leave-one-out check: how well each painted photo is found by what the others teach, and what it is taken for.

import { openPhoto } from "./actions";
import { h, setText } from "./dom";
import { classes, classOf, on, state } from "./store";
import type { Check, ClassInfo } from "./types";
import { words } from "./words";

const nameOf = (id: number) => (id === 0 ? words.classes.rest : (classOf(id)?.name ?? `${id}`));

export class CheckPanel {
  readonly element: HTMLElement;
  private body = h("div", { class: "check-body" });
  private running = h("span", { class: "muted" });
  private drawn = "";

  constructor() {
    this.element = h(
      "section",
      { class: "checks", "aria-labelledby": "checks-title" },
      h("header", { class: "panel-head" }, h("h2", { id: "checks-title" }, words.checks.title), this.running),
      this.body,
    );
    on("project", () => this.draw());
    on("current", () => this.draw());
  }

  private draw(): void {
    const project = state.project;
    if (!project) return;
    const checks = project.checks.filter((check) => classOf(check.class));
    const behind = checks.length > 0 && project.checks_revision !== undefined && project.checks_revision < state.changeRevision;
    setText(this.running, behind ? words.checks.running : "");
    const key = JSON.stringify([checks, classes().map((item) => [item.id, item.name, item.color, item.painted_photos]), state.current]);
    if (key === this.drawn) return;
    this.drawn = key;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["focus"];
    const own = classes().filter((item) => item.painted_photos.length > 0);
    if (own.length === 0) {
      this.body.replaceChildren(h("p", { class: "muted" }, words.checks.empty));
      return;
    }
    this.body.replaceChildren(
      h("p", { class: "muted" }, words.checks.about),
      ...own.map((item) => this.group(item, checks.filter((check) => check.class === item.id))),
    );
    if (focused) this.body.querySelector<HTMLElement>(`[data-focus="${focused}"]`)?.focus();
  }

  private group(item: ClassInfo, checks: Check[]): HTMLElement {
    const known = checks.filter((check) => check.iou !== null).sort((a, b) => (a.iou ?? 0) - (b.iou ?? 0));
    const mean = known.reduce((sum, check) => sum + (check.iou ?? 0), 0) / Math.max(1, known.length);
    const dot = h("i", { class: "dot" });
    dot.style.backgroundColor = item.color;
    return h(
      "div",
      { class: "check-class" },
      h("div", { class: "check-head" }, dot, h("strong", {}, item.name), h("span", { class: "grow" }), known.length > 0 ? h("span", { class: "check-mean" }, words.percent(mean)) : null),
      known.length === 0
        ? h("p", { class: "muted" }, words.checks.one)
        : h("ul", {}, ...known.slice(0, 12).map((check) => this.row(item, check))),
    );
  }

  private row(item: ClassInfo, check: Check): HTMLElement {
    const photo = state.byId.get(check.photo);
    const name = photo?.name ?? `${check.photo}`;
    const worst = [...check.confused_with].sort((a, b) => b.share - a.share).filter((other) => other.share >= 0.01).slice(0, 2);
    const confusion = worst.length > 0 ? worst.map((other) => words.checks.taken(other.share, nameOf(other.class))).join(", ") : (check.iou ?? 0) >= 0.8 ? words.checks.well : words.checks.missed;
    const fill = h("span", { class: "meter-fill" });
    fill.style.width = `${Math.round((check.iou ?? 0) * 100)}%`;
    fill.style.backgroundColor = item.color;
    const thumb = h("img", { class: "check-thumb", alt: "", loading: "lazy", src: `/api/photos/${check.photo}/image?side=192` });
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: `check-row${check.photo === state.current ? " chosen" : ""}`,
          "data-focus": `check-${item.id}-${check.photo}`,
          "aria-label": `${words.checks.photo(name)}. ${words.checks.score(item.name, check.iou ?? 0)}. ${confusion}`,
          onclick: () => {
            openPhoto(check.photo);
            this.opened();
          },
        },
        thumb,
        h(
          "span",
          { class: "check-text" },
          h("span", { class: "check-name" }, h("span", {}, name), h("b", {}, words.percent(check.iou ?? 0))),
          h("span", { class: "meter" }, fill),
          h("span", { class: "check-confusion" }, confusion),
        ),
      ),
    );
  }

  opened: () => void = () => {};
}
