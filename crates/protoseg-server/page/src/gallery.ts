// All photos with their overlays. Only tiles in view exist, so a thousand photos cost as much as thirty.

import { isPainted, loadPhotosSoon, openPhoto } from "./actions";
import { readChoice, writeChoice } from "./choices";
import { changedShare, drawView, shares } from "./colours";
import { h, iconButton, icon, setText } from "./dom";
import * as labels from "./labels";
import { galleryDrawn } from "./measure";
import { onPicture, picture, wantPictures } from "./pictures";
import type { Rows, Slot } from "./rows";
import { firstBelow, layRows } from "./rows";
import { classes, classOf, on, paintedClasses, state } from "./store";
import type { Photo } from "./types";
import { pickPhotos } from "./upload";
import { words } from "./words";

const GAP = 6;

interface Tile {
  element: HTMLDivElement;
  canvas: HTMLCanvasElement;
  overlay: HTMLCanvasElement;
  /** Of what the overlay was drawn, and whether there was anything to draw. */
  key: string;
  shown: boolean;
  dots: HTMLDivElement;
  caption: HTMLDivElement;
  badge: HTMLDivElement;
  id: number;
  slot: Slot;
}

export class Gallery {
  readonly element: HTMLElement;
  private list: HTMLDivElement;
  private inner: HTMLDivElement;
  private count = h("span", { class: "muted", id: "photo-count" });
  private empty: HTMLDivElement;
  private tiles = new Map<number, Tile>();
  private spare: Tile[] = [];
  private photos: Photo[] = [];
  private rows: Rows = { slots: [], height: 0 };
  private placeOf = new Map<number, number>();
  private active: number | null = null;
  private size = Number(readChoice("size", "88"));
  private order = readChoice<"folder" | "unsure">("order", "folder");
  private filter: "all" | "painted" | "unpainted" = "all";
  private width = 0;
  private height = 0;
  private frame = 0;
  private dirty = new Set<number>();
  private allDirty = false;
  private colours = 0;

  constructor(openWide: () => void) {
    this.inner = h("div", { class: "tiles" });
    this.list = h("div", { class: "tile-list", id: "photos", role: "listbox", tabindex: 0, "aria-label": words.gallery.list }, this.inner);
    this.empty = h("div", { class: "empty", hidden: true });
    const size = h("input", {
      type: "range",
      min: 56,
      max: 240,
      step: 4,
      value: this.size,
      class: "small-range",
      id: "tile-size",
      "aria-label": words.gallery.size,
      title: words.gallery.size,
      oninput: () => {
        this.size = Number(size.value);
        writeChoice("size", size.value);
        this.arrange();
      },
    });
    this.element = h(
      "section",
      { class: "gallery", id: "panel-photos", "aria-label": words.gallery.title },
      h(
        "header",
        { class: "panel-head" },
        h("h2", {}, words.gallery.title),
        this.count,
        h("span", { class: "grow" }),
        size,
        iconButton("wide", words.gallery.wide, openWide, "wide-button"),
        iconButton("plus", words.gallery.add, pickPhotos),
      ),
      h("div", { class: "gallery-choices" }, this.filterSelect(), this.orderSelect()),
      this.list,
      this.empty,
    );
    this.list.addEventListener("scroll", () => this.schedule());
    this.list.addEventListener("click", (event) => this.click(event));
    this.list.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.measure()).observe(this.list);
    onPicture((id) => this.touch(id));
    on("labels", (id) => this.touch(id));
    on("photo", (id) => this.touch(id));
    on("colours", () => {
      this.colours += 1;
      this.touchAll();
    });
    on("photos", () => this.choose());
    on("current", () => this.showCurrent());
    on("project", () => {
      if (this.filter !== "all") this.choose();
      this.touchAll();
    });
  }

  /** Neighbour of the photo in hand, in the order shown. */
  neighbour(step: number): number | null {
    if (this.photos.length === 0) return null;
    const at = state.current === null ? -1 : (this.placeOf.get(state.current) ?? -1);
    const next = this.photos[Math.min(this.photos.length - 1, Math.max(0, at + step))];
    return next?.id ?? null;
  }

  focus(): void {
    this.list.focus();
  }

  private filterSelect(): HTMLSelectElement {
    const select = h(
      "select",
      {
        "aria-label": words.gallery.filter,
        onchange: () => {
          this.filter = select.value as typeof this.filter;
          this.choose();
        },
      },
      ...(["all", "painted", "unpainted"] as const).map((key) => h("option", { value: key }, words.gallery.filters[key])),
    );
    return select;
  }

  private orderSelect(): HTMLSelectElement {
    const select = h(
      "select",
      {
        "aria-label": words.gallery.order,
        onchange: () => {
          this.order = select.value as typeof this.order;
          writeChoice("order", this.order);
          loadPhotosSoon(0);
          this.choose();
        },
      },
      ...(["folder", "unsure"] as const).map((key) => h("option", { value: key, selected: key === this.order }, words.gallery.orders[key])),
    );
    return select;
  }

  /** Which photos are shown, and in which order. */
  private choose(): void {
    let chosen = state.photos;
    if (this.filter !== "all") chosen = chosen.filter((photo) => isPainted(photo) === (this.filter === "painted"));
    if (this.order === "unsure") chosen = [...chosen].sort((a, b) => (b.uncertainty ?? -1) - (a.uncertainty ?? -1));
    this.photos = chosen;
    this.placeOf = new Map(chosen.map((photo, index) => [photo.id, index]));
    setText(this.count, words.gallery.count(chosen.length, state.photos.length));
    this.drawEmpty();
    this.arrange();
  }

  private drawEmpty(): void {
    const none = state.photos.length === 0;
    this.empty.hidden = this.photos.length > 0 || !state.loaded;
    this.list.hidden = this.photos.length === 0;
    if (this.empty.hidden) return;
    this.empty.replaceChildren(
      ...(none
        ? [icon("photos"), h("p", {}, words.gallery.none)]
        : [h("p", {}, words.gallery.noneMatch)]),
    );
  }

  private measure(): void {
    const style = getComputedStyle(this.list);
    const width = this.list.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const wasUnseen = this.height <= 0;
    this.height = this.list.clientHeight;
    if (width !== this.width && width > 0) {
      this.width = width;
      this.arrange();
    } else {
      this.schedule();
    }
    if (wasUnseen) this.showCurrent();
  }

  private arrange(): void {
    if (this.width <= 0) return;
    // What was at the top stays where it was, also if it is only partly in view.
    const scrolled = this.list.scrollTop;
    const top = scrolled > 0 ? this.rows.slots[firstBelow(this.rows.slots, scrolled)] : undefined;
    this.rows = layRows(this.photos.map((photo) => (photo.width > 0 ? photo.width / photo.height : 4 / 3)), this.width, this.size, GAP);
    this.inner.style.height = `${this.rows.height}px`;
    const slot = top && this.rows.slots[top.index];
    if (slot) this.list.scrollTop = slot.y + Math.min(scrolled - top.y, slot.height);
    this.touchAll();
  }

  private touch(id: number): void {
    this.dirty.add(id);
    this.schedule();
  }

  private touchAll(): void {
    this.allDirty = true;
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    if (this.width <= 0 || this.height <= 0) return;
    const top = this.list.scrollTop;
    const slots = this.rows.slots;
    const from = firstBelow(slots, top - 150);
    let to = from;
    while (to < slots.length && slots[to]!.y < top + this.height + 150) to += 1;

    const shown = new Set<number>();
    for (let at = from; at < to; at += 1) shown.add(this.photos[at]!.id);
    for (const [id, tile] of this.tiles) {
      if (!shown.has(id)) {
        tile.element.hidden = true;
        this.tiles.delete(id);
        this.spare.push(tile);
      }
    }
    for (let at = from; at < to; at += 1) this.place(this.photos[at]!, slots[at]!);
    this.allDirty = false;
    this.dirty.clear();
    this.want(from, to, top);
    galleryDrawn();
  }

  /** Asks for what is missing: in view first, from the middle outwards, then one screen around it. */
  private want(from: number, to: number, top: number): void {
    const slots = this.rows.slots;
    const middle = top + this.height / 2;
    const near = slots
      .slice(Math.max(0, from - 40), to + 40)
      .map((slot) => ({ id: this.photos[slot.index]!.id, far: Math.abs(slot.y + slot.height / 2 - middle), slot }))
      .filter((item) => item.far < this.height * 1.3)
      .sort((a, b) => a.far - b.far);
    const inView = near.filter(({ slot }) => slot.y + slot.height > top && slot.y < top + this.height).map(({ id }) => id);
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    wantPictures(near.map(({ id }) => id), this.size * 1.4 * ratio > 210 ? 384 : 192);
    labels.show(inView);
  }

  private place(photo: Photo, slot: Slot): void {
    let tile = this.tiles.get(photo.id);
    let redraw = this.allDirty || this.dirty.has(photo.id);
    if (!tile) {
      tile = this.spare.pop() ?? this.make();
      tile.id = photo.id;
      tile.element.id = `tile-${photo.id}`;
      tile.element.hidden = false;
      this.tiles.set(photo.id, tile);
      redraw = true;
    }
    if (tile.slot !== slot) {
      tile.slot = slot;
      const { style } = tile.element;
      style.transform = `translate(${slot.x}px, ${slot.y}px)`;
      style.width = `${slot.width}px`;
      style.height = `${slot.height}px`;
      redraw = true;
    }
    if (redraw) this.drawTile(tile, photo);
  }

  private make(): Tile {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const dots = h("div", { class: "tile-dots" });
    const caption = h("div", { class: "tile-name" });
    const badge = h("div", { class: "tile-badge" });
    const element = h("div", { class: "tile", role: "option" }, canvas, dots, badge, caption);
    this.inner.append(element);
    return { element, canvas, overlay: document.createElement("canvas"), key: "", shown: false, dots, caption, badge, id: -1, slot: { index: -1, row: 0, x: 0, y: 0, width: 0, height: 0 } };
  }

  private drawTile(tile: Tile, photo: Photo): void {
    const { element, canvas, slot } = tile;
    const entry = labels.smallEntry(photo.id);
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const width = Math.round(slot.width * ratio);
    const height = Math.round(slot.height * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, width, height);
    const bitmap = picture(photo.id);
    if (bitmap) context.drawImage(bitmap, 0, 0, width, height);
    const view = state.view === "strokes" ? "overlay" : state.view;
    const layers = { now: entry?.now ?? null, before: entry?.before ?? null, painted: null };
    const key = [photo.id, view, state.strength, this.colours, entry?.now?.revision, entry?.before?.revision].join("/");
    if (tile.key !== key) {
      tile.key = key;
      tile.shown = drawView(tile.overlay, view, layers, classes(), Math.min(1, state.strength + 0.1));
    }
    if (bitmap && tile.shown) context.drawImage(tile.overlay, 0, 0, width, height);
    const waiting = photo.features !== "failed" && (entry === undefined || entry.state === "waiting") && photo.features === "waiting";
    const failed = photo.features === "failed" || entry?.state === "failed";
    element.dataset["state"] = failed ? "failed" : !bitmap ? "loading" : waiting ? "waiting" : "ready";
    element.dataset["revision"] = String(entry?.now?.revision ?? "");
    element.setAttribute("aria-setsize", String(this.photos.length));
    element.setAttribute("aria-posinset", String(slot.index + 1));
    element.setAttribute("aria-selected", String(photo.id === state.current));
    element.classList.toggle("active", photo.id === this.active);
    this.describe(tile, photo, waiting, failed);
  }

  private describe(tile: Tile, photo: Photo, waiting: boolean, failed: boolean): void {
    const now = labels.smallEntry(photo.id)?.now ?? null;
    const painted = paintedClasses(photo.id);
    tile.dots.replaceChildren(
      ...painted.slice(0, 6).map((item) => {
        const dot = h("i", {});
        dot.style.backgroundColor = item.color;
        return dot;
      }),
    );
    const seen = now ? shares(now).filter(([id, share]) => share >= 0.005 && classOf(id) && !classOf(id)!.hidden) : [];
    tile.element.dataset["seen"] = seen.map(([id, share]) => `${id}:${share.toFixed(3)}`).join(",");
    let badge = "";
    if (failed) badge = words.gallery.failed;
    else if (state.view === "changed" && now) {
      const share = changedShare(now, labels.smallEntry(photo.id)?.before ?? null);
      if (share !== null && share >= 0.005) badge = words.percent(share);
    } else if (state.view === "confidence" && photo.uncertainty !== null) badge = tile.slot.width < 96 ? words.percent(photo.uncertainty) : words.gallery.unsure(photo.uncertainty);
    setText(tile.badge, badge);
    setText(tile.caption, photo.name);
    const parts = [photo.name];
    if (failed) parts.push(words.gallery.failed);
    else if (waiting) parts.push(words.gallery.waiting);
    if (painted.length > 0) parts.push(words.gallery.painted(painted.map((item) => item.name).join(", ")));
    if (now && classes().length > 0) {
      const list = seen.map(([id, share]) => `${classOf(id)!.name} ${words.percent(share)}`).join(", ");
      parts.push(list === "" ? words.gallery.nothingSeen : words.gallery.seen(list));
    }
    if (photo.uncertainty !== null) parts.push(words.gallery.unsure(photo.uncertainty));
    const label = parts.join("; ");
    tile.element.setAttribute("aria-label", label);
    tile.element.title = failed && photo.error ? `${photo.name}: ${photo.error}` : label;
  }

  private click(event: MouseEvent): void {
    const element = (event.target as Element).closest<HTMLElement>(".tile");
    if (!element) return;
    const id = Number(element.id.replace("tile-", ""));
    this.setActive(id, false);
    openPhoto(id);
    this.opened();
  }

  /** Told when a person opens a photo here, also the one already in hand. */
  opened: () => void = () => {};

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || this.photos.length === 0) return;
    const at = this.active === null ? -1 : (this.placeOf.get(this.active) ?? -1);
    let next = at;
    if (event.key === "ArrowRight") next = at + 1;
    else if (event.key === "ArrowLeft") next = at - 1;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") next = this.beside(at, event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = this.photos.length - 1;
    else if (event.key === "PageDown" || event.key === "PageUp") {
      for (let row = 0; row < 5; row += 1) next = this.beside(next, event.key === "PageDown" ? 1 : -1);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.active !== null) {
        openPhoto(this.active);
        this.opened();
      }
      event.preventDefault();
      event.stopPropagation();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
    const photo = this.photos[Math.min(this.photos.length - 1, Math.max(0, next))];
    if (photo) this.setActive(photo.id, true);
  }

  /** The slot above or below, nearest in the other direction. */
  private beside(at: number, way: 1 | -1): number {
    const slot = this.rows.slots[Math.max(0, at)];
    if (!slot) return 0;
    const centre = slot.x + slot.width / 2;
    let best = at;
    let distance = Infinity;
    for (let index = at + way; index >= 0 && index < this.rows.slots.length; index += way) {
      const other = this.rows.slots[index]!;
      if (other.row === slot.row) continue;
      if (other.row !== slot.row + way) break;
      const far = Math.abs(other.x + other.width / 2 - centre);
      if (far < distance) {
        distance = far;
        best = index;
      }
    }
    return best;
  }

  private setActive(id: number, scroll: boolean): void {
    this.active = id;
    this.list.setAttribute("aria-activedescendant", `tile-${id}`);
    const slot = this.rows.slots[this.placeOf.get(id) ?? -1];
    if (slot && scroll) this.scrollTo(slot);
    this.touchAll();
  }

  private scrollTo(slot: Slot): void {
    if (this.height <= 0) return;
    const margin = 12;
    if (slot.y < this.list.scrollTop + margin) this.list.scrollTop = slot.y - margin;
    else if (slot.y + slot.height > this.list.scrollTop + this.height - margin) this.list.scrollTop = slot.y + slot.height - this.height + 2 * margin;
  }

  private showCurrent(): void {
    if (state.current === null) return;
    this.setActive(state.current, true);
  }
}
