// From class ids to pixels. All colouring happens here, so that hiding or recolouring a class needs no request.

import type { ClassInfo, LabelMap, View } from "./types";
import { NEGATIVE } from "./types";

/** Colours that stay apart on photos, also for people who see red and green alike. */
const palette = ["#e6194b", "#1f9cf0", "#ffb000", "#00b386", "#a64dff", "#ff6f3c", "#00c2d1", "#d63fa5", "#8fbf1f", "#5a6cff", "#c98b2b", "#ff8fab"];

export function nextColour(used: string[]): string {
  const taken = new Set(used.map((colour) => colour.toLowerCase()));
  return palette.find((colour) => !taken.has(colour)) ?? palette[used.length % palette.length] ?? "#e6194b";
}

function channels(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.slice(1, 7), 16);
  return Number.isNaN(value) ? [128, 128, 128] : [value >> 16, (value >> 8) & 255, value & 255];
}

const pixel = (r: number, g: number, b: number, a: number) => ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** One pixel per class id; hidden classes, everything else and none are clear. */
function table(classes: ClassInfo[], alpha: number): Uint32Array {
  const result = new Uint32Array(256);
  for (const item of classes) {
    if (!item.hidden) result[item.id] = pixel(...channels(item.color), Math.round(alpha * 255));
  }
  return result;
}

// From unsure to sure: dark violet, red, orange, pale yellow; the surer, the more of the photo shows through.
const rampStops: [number, number, number][] = [[44, 14, 92], [140, 33, 122], [226, 84, 76], [250, 166, 76], [252, 246, 190]];
const ramp = new Uint32Array(256).map((_, value) => {
  const place = (value / 255) * (rampStops.length - 1);
  const at = Math.min(Math.floor(place), rampStops.length - 2);
  const [from, to] = [rampStops[at]!, rampStops[at + 1]!];
  const mix = (i: 0 | 1 | 2) => Math.round(from[i] + (to[i] - from[i]) * (place - at));
  return pixel(mix(0), mix(1), mix(2), Math.round(200 - 0.55 * value));
});

export interface Layers {
  now: LabelMap | null;
  before: LabelMap | null;
  painted: LabelMap | null;
}

/** Draws a view of the layers into `canvas`, at the size of the labels. Says whether there is anything to see. */
export function drawView(canvas: HTMLCanvasElement, view: View, layers: Layers, classes: ClassInfo[], strength: number): boolean {
  const map = view === "strokes" ? layers.painted : layers.now;
  if (view === "photo" || !map) return false;
  if (canvas.width !== map.width || canvas.height !== map.height) {
    canvas.width = map.width;
    canvas.height = map.height;
  }
  const context = canvas.getContext("2d");
  if (!context) return false;
  const image = context.createImageData(map.width, map.height);
  const out = new Uint32Array(image.data.buffer);
  if (view === "overlay") drawLabels(out, map, classes, strength);
  else if (view === "strokes") drawPaint(out, map, classes, 0.85);
  else if (view === "confidence") drawConfidence(out, map);
  else drawChange(out, map, layers.before, classes);
  context.putImageData(image, 0, 0);
  return true;
}

/** Class colours with a full line along borders, which stays readable on busy photos. */
function drawLabels(out: Uint32Array, map: LabelMap, classes: ClassInfo[], strength: number): void {
  const { ids, width, height } = map;
  const fill = table(classes, strength);
  const line = table(classes, Math.min(1, strength + 0.4));
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      const id = ids[at]!;
      if (fill[id] === 0) continue;
      const border =
        (x > 0 && ids[at - 1] !== id) || (x + 1 < width && ids[at + 1] !== id) || (y > 0 && ids[at - width] !== id) || (y + 1 < height && ids[at + width] !== id);
      out[at] = border ? line[id]! : fill[id]!;
    }
  }
}

function drawConfidence(out: Uint32Array, map: LabelMap): void {
  if (!map.confidence) return;
  for (let at = 0; at < out.length; at += 1) out[at] = ramp[map.confidence[at]!]!;
}

const shade = pixel(12, 12, 16, 150);
const light = pixel(255, 255, 255, 225);
const dark = pixel(20, 20, 24, 215);

/** Dims what stayed, shows what is new in its colour, and what is gone as stripes of its colour. */
function drawChange(out: Uint32Array, map: LabelMap, before: LabelMap | null, classes: ClassInfo[]): void {
  const same = !before || before.ids.length !== map.ids.length;
  const fill = table(classes, 0.92);
  for (let y = 0, at = 0; y < map.height; y += 1) {
    for (let x = 0; x < map.width; x += 1, at += 1) {
      const id = map.ids[at]!;
      const old = same ? id : before.ids[at]!;
      if (id === old) out[at] = shade;
      else if (fill[id] !== 0) out[at] = fill[id]!;
      else out[at] = (x + y) % 6 < 3 && fill[old] !== 0 ? fill[old]! : light;
    }
  }
}

export function changedShare(map: LabelMap, before: LabelMap | null): number | null {
  if (!before || before.ids.length !== map.ids.length) return null;
  let changed = 0;
  for (let at = 0; at < map.ids.length; at += 1) if (map.ids[at] !== before.ids[at]) changed += 1;
  return changed / map.ids.length;
}

/** Paint, with "none of the classes" as black and white stripes. */
export function drawPaint(out: Uint32Array, map: LabelMap, classes: ClassInfo[], alpha: number): void {
  const fill = table(classes, alpha);
  const { ids, width, height } = map;
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      const id = ids[at]!;
      if (id === 0) continue;
      const border =
        (x > 0 && ids[at - 1] !== id) || (x + 1 < width && ids[at + 1] !== id) || (y > 0 && ids[at - width] !== id) || (y + 1 < height && ids[at + width] !== id);
      if (id === NEGATIVE) out[at] = border || (x + y) % 8 < 4 ? light : dark;
      else if (fill[id] !== 0) out[at] = border ? light : fill[id]!;
    }
  }
}

/** Only the outline of paint, for laying it over another view. */
export function drawPaintOutline(canvas: HTMLCanvasElement, map: LabelMap, classes: ClassInfo[]): void {
  canvas.width = map.width;
  canvas.height = map.height;
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(map.width, map.height);
  const out = new Uint32Array(image.data.buffer);
  const shown = table(classes, 1);
  const { ids, width, height } = map;
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      const id = ids[at]!;
      if (id === 0 || (id !== NEGATIVE && shown[id] === 0)) continue;
      const border =
        (x > 0 && ids[at - 1] !== id) || (x + 1 < width && ids[at + 1] !== id) || (y > 0 && ids[at - width] !== id) || (y + 1 < height && ids[at + width] !== id);
      if (border) out[at] = id === NEGATIVE && (x + y) % 6 < 3 ? dark : light;
    }
  }
  context.putImageData(image, 0, 0);
}

/** Share of each class that is seen, largest first. */
export function shares(map: LabelMap): [number, number][] {
  const counts = new Uint32Array(256);
  for (const id of map.ids) counts[id]! += 1;
  const result: [number, number][] = [];
  counts.forEach((count, id) => {
    if (count > 0 && id > 0 && id < NEGATIVE) result.push([id, count / map.ids.length]);
  });
  return result.sort((a, b) => b[1] - a[1]);
}

/** A smaller copy by nearest neighbours. */
export function shrink(map: LabelMap, side: number): LabelMap {
  const factor = side / Math.max(map.width, map.height);
  if (factor >= 1) return map;
  const width = Math.max(1, Math.round(map.width * factor));
  const height = Math.max(1, Math.round(map.height * factor));
  const ids = new Uint8Array(width * height);
  const confidence = map.confidence ? new Uint8Array(width * height) : null;
  for (let y = 0, at = 0; y < height; y += 1) {
    const row = Math.min(map.height - 1, Math.floor(((y + 0.5) * map.height) / height)) * map.width;
    for (let x = 0; x < width; x += 1, at += 1) {
      const from = row + Math.min(map.width - 1, Math.floor(((x + 0.5) * map.width) / width));
      ids[at] = map.ids[from]!;
      if (confidence && map.confidence) confidence[at] = map.confidence[from]!;
    }
  }
  return { width, height, revision: map.revision, ids, confidence };
}
