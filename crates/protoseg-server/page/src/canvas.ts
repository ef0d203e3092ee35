// The photo in hand: drawing, zooming, panning, and the notes beside strokes. What the pointer does is in tools.ts.

import { pending } from "./actions";
import { aborted, api } from "./api";
import { changedShare, drawPaintOutline, drawView } from "./colours";
import { h, setText } from "./dom";
import * as labels from "./labels";
import { overlayDrawn } from "./measure";
import { picture } from "./pictures";
import { report } from "./status";
import { classes, classOf, currentPhoto, on, state } from "./store";
import type { LabelMap, Photo, Point, Stroke } from "./types";
import { NEGATIVE } from "./types";
import { words } from "./words";

const DETAIL = 1280;

interface Loaded {
  bitmap: ImageBitmap;
  full: boolean;
}

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export class Stage {
  readonly canvas: HTMLCanvasElement;
  readonly element: HTMLDivElement;
  /** Photo pixels to CSS pixels: `screen = photo * scale + offset`. */
  scale = 1;
  offsetX = 0;
  offsetY = 0;
  /** How much of the stage is covered by other things: at the top, and at the bottom. */
  covered: () => [number, number] = () => [0, 0];
  /** Draws what the tool in hand is doing, in photo pixels. */
  drawTool: (context: CanvasRenderingContext2D) => void = () => {};

  private width = 0;
  private height = 0;
  private ratio = 1;
  private fitted = true;
  private frame = 0;
  private loaded = new Map<number, Loaded>();
  private loading: AbortController | null = null;
  private overlay = document.createElement("canvas");
  private outline = document.createElement("canvas");
  private overlayKey = "";
  private overlayShown = false;
  private outlineKey = "";
  private colours = 0;
  private notes = h("div", { class: "notes" });
  private banner = h("div", { class: "stage-banner", hidden: true });

  constructor() {
    this.canvas = h("canvas", {
      id: "stage",
      tabindex: 0,
      role: "application",
      "aria-roledescription": words.stage.role,
      "aria-label": words.stage.choose,
      "aria-describedby": "stage-description",
    });
    this.element = h(
      "div",
      { class: "stage-canvas" },
      this.canvas,
      this.notes,
      this.banner,
      h("p", { class: "only-read", id: "stage-description" }, words.stage.description),
    );
    new ResizeObserver(() => this.resize()).observe(this.element);
    on("current", () => this.open());
    on("labels", (id) => id === state.current && this.invalidate());
    on("painted", (id) => id === state.current && this.invalidate());
    on("settings", () => this.invalidate());
    on("colours", () => {
      this.colours += 1;
      this.invalidate();
    });
    on("project", () => this.invalidate());
    on("photos", () => this.invalidate());
  }

  invalidate(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  toPhoto(clientX: number, clientY: number): Point {
    const box = this.canvas.getBoundingClientRect();
    return [(clientX - box.left - this.offsetX) / this.scale, (clientY - box.top - this.offsetY) / this.scale];
  }

  toScreen([x, y]: Point): Point {
    return [x * this.scale + this.offsetX, y * this.scale + this.offsetY];
  }

  fit(): void {
    const photo = currentPhoto();
    if (!photo || this.width === 0) return;
    const [head, foot] = this.covered();
    const side = this.width < 560 ? 8 : 20;
    const top = head > 1 ? head + 14 : 8;
    const bottom = foot > 1 ? foot + 12 : 8;
    const room = [this.width - 2 * side, Math.max(40, this.height - top - bottom)] as const;
    this.scale = Math.max(0.01, Math.min(room[0] / photo.width, room[1] / photo.height, 16));
    this.offsetX = side + (room[0] - photo.width * this.scale) / 2;
    this.offsetY = top + (room[1] - photo.height * this.scale) / 2;
    this.fitted = true;
    this.invalidate();
  }

  /** Makes use of the room there is now, unless a person has zoomed or moved the photo. */
  refit(): void {
    if (this.fitted) this.fit();
  }

  /** Zooms about a point of the screen; without one, about the middle. */
  zoom(factor: number, clientX?: number, clientY?: number): void {
    const photo = currentPhoto();
    if (!photo) return;
    const box = this.canvas.getBoundingClientRect();
    const x = (clientX ?? box.left + box.width / 2) - box.left;
    const y = (clientY ?? box.top + box.height / 2) - box.top;
    const smallest = (0.5 * Math.min(this.width, this.height)) / Math.max(photo.width, photo.height);
    const scale = Math.min(64, Math.max(smallest, this.scale * factor));
    this.offsetX = x - ((x - this.offsetX) / this.scale) * scale;
    this.offsetY = y - ((y - this.offsetY) / this.scale) * scale;
    this.scale = scale;
    this.moved();
  }

  pan(dx: number, dy: number): void {
    this.offsetX += dx;
    this.offsetY += dy;
    this.moved();
  }

  /** Moves the photo so that a point of it can be seen. */
  reveal(point: Point): void {
    const [x, y] = this.toScreen(point);
    const margin = 40;
    const dx = x < margin ? margin - x : x > this.width - margin ? this.width - margin - x : 0;
    const dy = y < margin ? margin - y : y > this.height - margin ? this.height - margin - y : 0;
    if (dx !== 0 || dy !== 0) this.pan(dx, dy);
  }

  private moved(): void {
    this.fitted = false;
    // A part of the photo always stays in sight.
    const photo = currentPhoto();
    if (photo) {
      const hold = 60;
      this.offsetX = Math.min(this.width - hold, Math.max(hold - photo.width * this.scale, this.offsetX));
      this.offsetY = Math.min(this.height - hold, Math.max(hold - photo.height * this.scale, this.offsetY));
    }
    void this.load();
    this.invalidate();
  }

  private resize(): void {
    const box = this.element.getBoundingClientRect();
    if (box.width === 0) return;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * this.ratio);
    this.canvas.height = Math.round(box.height * this.ratio);
    // Where notices can lie on a phone without covering tools.
    document.documentElement.style.setProperty("--under-stage", `${Math.round(window.innerHeight - box.bottom)}px`);
    this.refit();
    cancelAnimationFrame(this.frame);
    this.draw();
  }

  private open(): void {
    const photo = currentPhoto();
    this.canvas.setAttribute("aria-label", photo ? words.stage.label(photo.name) : words.stage.choose);
    this.fit();
    void this.load();
    this.invalidate();
  }

  /** Fetches the photo, and all of its pixels once they can be told apart. */
  private async load(): Promise<void> {
    const photo = currentPhoto();
    if (!photo) return;
    const longer = Math.max(photo.width, photo.height);
    const full = longer <= DETAIL || longer * this.scale * this.ratio > 1.4 * DETAIL;
    const have = this.loaded.get(photo.id);
    if (have && (have.full || !full)) return;
    this.loading?.abort();
    const control = (this.loading = new AbortController());
    try {
      const bitmap = await api.image(photo.id, full ? null : DETAIL, control.signal);
      this.loaded.get(photo.id)?.bitmap.close();
      this.loaded.delete(photo.id);
      this.loaded.set(photo.id, { bitmap, full });
      for (const [id, old] of this.loaded) {
        if (this.loaded.size <= 5) break;
        old.bitmap.close();
        this.loaded.delete(id);
      }
      this.invalidate();
    } catch (error) {
      if (!aborted(error) && photo.features !== "failed") report(error);
    }
  }

  private draw(): void {
    this.frame = 0;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const photo = currentPhoto();
    if (!photo) {
      this.notes.replaceChildren();
      this.banner.hidden = true;
      return;
    }
    const { ratio, scale } = this;
    context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * this.offsetX, ratio * this.offsetY);
    const bitmap = this.loaded.get(photo.id)?.bitmap ?? picture(photo.id);
    context.imageSmoothingEnabled = scale < 6;
    context.imageSmoothingQuality = "high";
    if (bitmap) context.drawImage(bitmap, 0, 0, photo.width, photo.height);
    context.imageSmoothingEnabled = true;

    const entry = labels.largeEntry(photo.id);
    const now = entry?.now ?? labels.smallEntry(photo.id)?.now ?? null;
    const before = entry?.before ?? null;
    const paint = labels.paintOf(photo.id);
    this.drawOverlay(photo, { now, before, painted: paint });
    if (this.overlayShown) context.drawImage(this.overlay, 0, 0, photo.width, photo.height);
    if (paint && state.view !== "photo" && state.view !== "strokes") {
      const key = `${photo.id}/${paint.revision}/${this.colours}`;
      if (key !== this.outlineKey) {
        drawPaintOutline(this.outline, paint, classes());
        this.outlineKey = key;
      }
      context.drawImage(this.outline, 0, 0, photo.width, photo.height);
    }
    for (const item of pending) {
      if (item.photo === photo.id && (item.revision === null || (paint?.revision ?? -1) < item.revision)) {
        drawStroke(context, item.stroke, scale);
      }
    }
    this.drawTool(context);
    this.drawBanner(photo);
    this.drawNotes(photo);
    this.canvas.dataset["place"] = [scale, this.offsetX, this.offsetY].map((value) => value.toFixed(4)).join(",");
    if (entry?.now) {
      this.canvas.dataset["revision"] = String(entry.now.revision);
      overlayDrawn(photo.id, entry.now.revision);
    }
  }

  private drawOverlay(photo: Photo, layers: Parameters<typeof drawView>[2]): void {
    const { now, before, painted } = layers;
    const key = [photo.id, state.view, state.strength, this.colours, now?.revision, now?.width, before?.revision, state.view === "strokes" ? painted?.revision : 0].join("/");
    if (key === this.overlayKey) return;
    this.overlayKey = key;
    this.overlayShown = drawView(this.overlay, state.view, layers, classes(), state.strength);
  }

  private drawBanner(photo: Photo): void {
    const entry = labels.largeEntry(photo.id);
    let text = "";
    if (photo.features === "failed" || entry?.state === "failed") text = photo.error ?? words.stage.failed;
    else if (entry?.state === "waiting" && state.view !== "photo") text = words.stage.waiting;
    else if (pending.some((item) => item.photo === photo.id && item.stroke.tool === "magic" && item.revision === null)) text = words.stage.finding;
    else if (state.view === "changed" && entry?.now) {
      const share = changedShareOf(photo.id);
      text = share === null ? words.views.noChange : words.views.changedShare(share);
    }
    this.banner.hidden = text === "";
    setText(this.banner, text);
  }

  /** Says beside the strokes of each class how well the others find it, and what it is taken for. */
  private drawNotes(photo: Photo): void {
    const paint = labels.paintOf(photo.id);
    const wanted = state.view === "overlay" || state.view === "strokes";
    const found = wanted && paint ? (state.project?.checks ?? []).filter((check) => check.photo === photo.id && check.iou !== null) : [];
    const kept = new Set<Element>();
    const taken: Box[] = [];
    for (const check of found) {
      const item = classOf(check.class);
      const ends = paint ? endsOf(photo.id, check.class) : null;
      if (!item || item.hidden || !ends || !paint) continue;
      const worst = check.confused_with.filter((other) => other.share >= 0.03).sort((a, b) => b.share - a.share)[0];
      if (state.view === "overlay" && !worst) continue;
      const key = `note-${check.class}`;
      let note = this.notes.querySelector<HTMLElement>(`#${key}`);
      if (!note) {
        note = h("div", { class: "note", id: key }, h("b", {}), h("span", {}));
        this.notes.append(note);
      }
      kept.add(note);
      note.style.setProperty("--class", item.color);
      setText(note.children[0]!, words.stage.right(item.name, check.iou ?? 0));
      const other = worst ? (worst.class === 0 ? words.classes.rest : (classOf(worst.class)?.name ?? "")) : "";
      setText(note.children[1]!, worst ? words.stage.mistaken(other, worst.share) : "");
      const [high, low] = ends.map(([x, y]) => this.toScreen([(x * photo.width) / paint.width, (y * photo.height) / paint.height])) as [Point, Point];
      note.hidden = ![high, low].some(([x, y]) => x > 0 && x < this.width && y > 0 && y < this.height);
      if (note.hidden) continue;
      const box = this.notePlace(photo, high, low, note.offsetWidth, note.offsetHeight, taken);
      taken.push(box);
      note.style.transform = `translate(${Math.round(box.left)}px, ${Math.round(box.top)}px)`;
    }
    for (const child of [...this.notes.children]) if (!kept.has(child)) child.remove();
  }

  /** The nearest place to a stroke where a note hides next to nothing that is painted or seen, inside the photo and the view. */
  private notePlace(photo: Photo, high: Point, low: Point, width: number, height: number, taken: Box[]): Box {
    const [head, foot] = this.covered();
    const [left, top] = this.toScreen([0, 0]).map((value, axis) => Math.max(value, axis === 0 ? 0 : head) + 4) as Point;
    const [right, bottom] = this.toScreen([photo.width, photo.height]).map((value, axis) => Math.min(value, axis === 0 ? this.width : this.height - Math.max(0, foot)) - 4) as Point;
    const maps = [labels.paintOf(photo.id), labels.largeEntry(photo.id)?.now ?? null];
    let best: Box | null = null;
    let least = Infinity;
    for (const [x, y] of [[high[0] - width / 2, high[1] - height - 8], [low[0] - width / 2, low[1] + 8], [left, top], [right, top], [left, bottom], [right, bottom]] as Point[]) {
      const box = {
        left: Math.max(4, Math.min(Math.max(x, left), right - width, this.width - width - 4)),
        top: Math.max(4, Math.min(Math.max(y, top), bottom - height, this.height - height - 4)),
        width,
        height,
      };
      const hidden = this.hiddenShare(photo, box, maps, taken);
      if (hidden < 0.05) return box;
      if (hidden < least) [best, least] = [box, hidden];
    }
    return best!;
  }

  /** Which share of a box would hide classes or other notes, from a grid of points. */
  private hiddenShare(photo: Photo, box: Box, maps: (LabelMap | null)[], taken: Box[]): number {
    const [across, down] = [16, 5];
    let hidden = 0;
    for (let i = 0; i < across * down; i += 1) {
      const x = box.left + (((i % across) + 0.5) * box.width) / across;
      const y = box.top + ((Math.floor(i / across) + 0.5) * box.height) / down;
      const [u, v] = [(x - this.offsetX) / this.scale / photo.width, (y - this.offsetY) / this.scale / photo.height];
      const isOnPhoto = u >= 0 && u < 1 && v >= 0 && v < 1;
      const id = (map: LabelMap | null) => (map && isOnPhoto ? map.ids[Math.floor(v * map.height) * map.width + Math.floor(u * map.width)]! : 0);
      const isTaken = taken.some((other) => x > other.left && x < other.left + other.width && y > other.top && y < other.top + other.height);
      if (isTaken || maps.some((map) => id(map) > 0 && id(map) <= NEGATIVE)) hidden += 1;
    }
    return hidden / (across * down);
  }
}

const shareCache = new Map<number, { key: string; share: number | null }>();

function changedShareOf(id: number): number | null {
  const entry = labels.largeEntry(id);
  if (!entry?.now) return null;
  const key = `${entry.now.revision}/${entry.before?.revision}`;
  const cached = shareCache.get(id);
  if (cached?.key === key) return cached.share;
  const share = changedShare(entry.now, entry.before);
  shareCache.set(id, { key, share });
  return share;
}

const endsCache = new Map<string, [Point, Point] | null>();

/** The middles of the highest and of the lowest painted row of a class: what its note stands beside. */
function endsOf(photo: number, classId: number): [Point, Point] | null {
  const paint = labels.paintOf(photo);
  if (!paint) return null;
  const key = `${photo}/${classId}/${paint.revision}/${paint.width}`;
  const cached = endsCache.get(key);
  if (cached !== undefined) return cached;
  if (endsCache.size > 200) endsCache.clear();
  const { ids, width } = paint;
  const middle = (at: number): Point => {
    const y = Math.floor(at / width);
    let [from, to] = [at, at];
    while (from > y * width && ids[from - 1] === classId) from -= 1;
    while (to + 1 < (y + 1) * width && ids[to + 1] === classId) to += 1;
    return [(from + to + 1) / 2 - y * width, y];
  };
  const first = ids.indexOf(classId);
  const result: [Point, Point] | null = first < 0 ? null : [middle(first), middle(ids.lastIndexOf(classId))];
  endsCache.set(key, result);
  return result;
}

let stripes: CanvasPattern | null = null;

function stripePattern(context: CanvasRenderingContext2D): CanvasPattern | string {
  if (!stripes) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const inner = tile.getContext("2d");
    if (inner) {
      inner.fillStyle = "rgba(20,20,24,0.75)";
      inner.fillRect(0, 0, 8, 8);
      inner.strokeStyle = "rgba(255,255,255,0.9)";
      inner.lineWidth = 3;
      for (const shift of [-8, 0, 8]) {
        inner.beginPath();
        inner.moveTo(shift, 8);
        inner.lineTo(shift + 8, 0);
        inner.stroke();
      }
    }
    stripes = context.createPattern(tile, "repeat");
  }
  stripes?.setTransform(new DOMMatrix().scale(1 / context.getTransform().a));
  return stripes ?? "rgba(20,20,24,0.75)";
}

/** Draws a stroke as it will be painted. `context` is in photo pixels. */
export function drawStroke(context: CanvasRenderingContext2D, stroke: Stroke, scale: number): void {
  const { points } = stroke;
  const first = points[0];
  if (!first) return;
  const colour = stroke.mode === "add" ? (classOf(stroke.class)?.color ?? "#888888") : stroke.mode === "not" ? stripePattern(context) : "rgba(255,255,255,0.7)";
  context.save();
  context.lineCap = "round";
  context.lineJoin = "round";
  context.globalAlpha = stroke.mode === "add" ? 0.75 : 0.9;
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.beginPath();
  if (stroke.tool === "rectangle") {
    const last = points[points.length - 1]!;
    context.rect(first[0], first[1], last[0] - first[0], last[1] - first[1]);
    context.globalAlpha *= 0.7;
    context.fill();
  } else if (stroke.tool === "polygon") {
    context.moveTo(...first);
    for (const point of points.slice(1)) context.lineTo(...point);
    context.closePath();
    context.globalAlpha *= 0.7;
    context.fill();
  } else {
    const width = stroke.tool === "magic" ? 6 / scale : 2 * stroke.radius;
    context.lineWidth = width;
    context.moveTo(...first);
    for (const point of points.slice(1)) context.lineTo(...point);
    if (points.length === 1) context.lineTo(first[0] + 0.01, first[1]);
    context.stroke();
    if (stroke.tool === "magic") {
      context.globalAlpha = 1;
      context.lineWidth = 2 / scale;
      context.strokeStyle = "#ffffff";
      context.beginPath();
      context.arc(first[0], first[1], 8 / scale, 0, 2 * Math.PI);
      context.stroke();
    }
  }
  context.restore();
}
