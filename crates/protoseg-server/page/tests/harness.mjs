// Starts what the browser tests need: the real program if PROTOSEG_BIN names it, else the mock; and a browser.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { readPng } from "../mock/png.mjs";
import { startMock } from "../mock/server.mjs";

export const binary = process.env.PROTOSEG_BIN ?? null;
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";

export const hasBrowser = existsSync(browserPath);

/** Class ids in the masks of Scenes, as `protoseg data draw` writes them. */
export const SCENES = { cow: 2, car: 4, duck: 6 };

export async function startServer(photos = 40) {
  if (!binary) return { ...(await startMock({ photos, featureDelay: 10 })), real: false, masks: null };
  const folder = mkdtempSync(join(tmpdir(), "protoseg-studio-"));
  const drawn = spawnSync(binary, ["data", "draw", "-o", join(folder, "photos"), "--count", String(photos), "--class", "duck"], { encoding: "utf8" });
  if (drawn.status !== 0) throw new Error(`protoseg data draw failed: ${drawn.stderr}`);
  const server = await startReal(join(folder, "photos"));
  return { ...server, folder, photos: join(folder, "photos"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export async function startReal(photos) {
  const child = spawn(binary, ["studio", photos, "--no-open", "--port", "0"], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  const start = await new Promise((resolve, reject) => {
    const take = (part) => {
      text += part;
      const found = /http:\/\/\S+token=[^\s"']+/.exec(text);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.on("exit", (code) => reject(new Error(`protoseg studio ended with ${code}: ${text}`)));
    setTimeout(() => reject(new Error(`protoseg studio printed no address: ${text}`)), 60000).unref();
  });
  const stop = (signal = "SIGTERM") =>
    new Promise((resolve) => {
      child.on("exit", resolve);
      child.kill(signal);
    });
  return { start, address: new URL(start).origin, stop, real: true };
}

export function openBrowser() {
  const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: browserPath, headless: true, args: quiet });
}

/** Where a thing is in a photo: a mask, as the mock paints it or as Scenes draw it. */
export async function thingMask(page, server, photo) {
  if (server.real) {
    const file = readFileSync(join(`${server.photos}-masks`, photo.name.replace(/\.\w+$/, ".png")));
    const { width, height, indices } = readPng(file);
    const inside = indices.map((id) => (id === SCENES.duck ? 1 : 0));
    return { width, height, inside };
  }
  const { width, height, rgb } = server.studio.photo(photo.id).picture;
  const inside = new Uint8Array(width * height).map((_, i) => (rgb[3 * i] > 170 && rgb[3 * i + 1] > 125 && rgb[3 * i + 2] < 120 ? 1 : 0));
  return { width, height, inside };
}

/** The point deepest inside a mask, and how deep it is. */
export function deepest({ width, height, inside }) {
  const depth = new Uint16Array(width * height);
  const at = (x, y) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : depth[y * width + x]);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) if (inside[y * width + x]) depth[y * width + x] = 1 + Math.min(at(x - 1, y), at(x, y - 1));
  let best = { x: 0, y: 0, depth: 0 };
  for (let y = height - 1; y >= 0; y -= 1) {
    for (let x = width - 1; x >= 0; x -= 1) {
      const i = y * width + x;
      if (inside[i]) depth[i] = Math.min(depth[i], 1 + Math.min(at(x + 1, y), at(x, y + 1)));
      if (depth[i] > best.depth) best = { x, y, depth: depth[i] };
    }
  }
  return best;
}

export const files = (folder) => readdirSync(folder);

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
