// Small pictures for the docs: a screenshot with a palette of few colours, chosen by median cut.
import { deflateSync } from "node:zlib";
import { chunk, readPng } from "../mock/png.mjs";

export function smallPng(file, colours = 256) {
  const { width, height, rgb } = readPng(file);
  const counts = new Map();
  const key = (i) => ((rgb[i] >> 2) << 12) | ((rgb[i + 1] >> 2) << 6) | (rgb[i + 2] >> 2);
  for (let i = 0; i < rgb.length; i += 3) counts.set(key(i), (counts.get(key(i)) ?? 0) + 1);
  const boxes = [[...counts].map(([k, n]) => ({ k, n, c: [((k >> 12) << 2) | 2, (((k >> 6) & 63) << 2) | 2, ((k & 63) << 2) | 2] }))];
  const spread = (box) => [0, 1, 2].map((k) => Math.max(...box.map(({ c }) => c[k])) - Math.min(...box.map(({ c }) => c[k])));
  const weight = (box) => Math.max(...spread(box)) * Math.sqrt(box.reduce((sum, { n }) => sum + n, 0));
  const scored = boxes.map((box) => ({ box, score: box.length > 1 ? weight(box) : 0 }));
  while (scored.length < colours) {
    scored.sort((a, b) => b.score - a.score);
    const top = scored[0];
    if (top.score === 0) break;
    const size = spread(top.box);
    const axis = size.indexOf(Math.max(...size));
    top.box.sort((a, b) => a.c[axis] - b.c[axis]);
    const half = top.box.reduce((sum, { n }) => sum + n, 0) / 2;
    let [at, sum] = [0, 0];
    while (at < top.box.length - 1 && (sum += top.box[at].n) < half) at += 1;
    const parts = [top.box.slice(0, Math.max(1, at)), top.box.slice(Math.max(1, at))];
    scored.splice(0, 1, ...parts.map((box) => ({ box, score: box.length > 1 ? weight(box) : 0 })));
  }
  const palette = Buffer.alloc(3 * scored.length);
  const place = new Map();
  scored.forEach(({ box }, index) => {
    const total = box.reduce((sum, { n }) => sum + n, 0);
    for (let k = 0; k < 3; k += 1) palette[3 * index + k] = Math.round(box.reduce((sum, { n, c }) => sum + n * c[k], 0) / total);
    for (const { k } of box) place.set(k, index);
  });
  const rows = Buffer.alloc(height * (1 + width));
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) rows[y * (1 + width) + 1 + x] = place.get(key(3 * (y * width + x)));
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("PLTE", palette), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
