// The page in a browser: with the mock, or with the real program if PROTOSEG_BIN names it. With PROTOSEG_PICTURES set,
// the pictures of docs/studio.md are written (real program only: they show Scenes).
//
//     npm test
//     PROTOSEG_BIN=../../../target/release/protoseg npm test
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { readPng, writePng } from "../mock/png.mjs";
import { startMock } from "../mock/server.mjs";
import { binary, deepest, hasBrowser, median, openBrowser, startReal, startServer, thingMask } from "./harness.mjs";
import { smallPng } from "./palette.mjs";

const docs = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "..", "docs");
const assets = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "assets");
// A crowded machine is slow, but not wrong.
const patience = 60000;
const skip = hasBrowser ? false : "chromium is not installed (apt-get install chromium, or set CHROMIUM to its path)";
const desktop = { width: 1280, height: 800 };
const phone = { width: 390, height: 844 };

let server;
let browser;
let context;
let page;
const problems = [];
// From then on, requests that nobody answers are no fault of the page.
let isKilled = false;

async function newPage(options = {}) {
  const made = await browser.newContext({ viewport: desktop, acceptDownloads: true, ...options });
  const opened = await made.newPage();
  opened.setDefaultTimeout(patience);
  // With a program that was built before the page: the page as it is on disk.
  if (process.env.PROTOSEG_PAGE) await opened.route("**/assets/*", (route) => route.fulfill({ path: join(assets, route.request().url().split("/").at(-1)) }));
  opened.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  opened.on("console", (message) => {
    const isUnanswered = isKilled && message.text().includes("net::ERR_");
    if (message.type() === "error" && !isUnanswered) problems.push(`console: ${message.text()}`);
  });
  return [made, opened];
}

/** Opens the page and waits until it shows labels. */
async function open(target, where = server.start) {
  await target.goto(where);
  await target.waitForSelector("#stage[data-revision]", { state: "attached", timeout: 60000 });
}

const photoList = (target) => target.evaluate(async () => (await (await fetch("/api/photos?offset=0&limit=200")).json()).photos);
const project = (target) => target.evaluate(async () => (await fetch("/api/project")).json());
/** A short word for what the photo in hand looks like. */
const look = (target) =>
  target.evaluate(async () => {
    const bytes = new TextEncoder().encode(document.querySelector("#stage").toDataURL());
    return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].slice(0, 8).join(".");
  });
/** Waits until the photo in hand looks different. */
async function looksOther(target, before) {
  const end = Date.now() + patience;
  while ((await look(target)) === before) {
    assert.ok(Date.now() < end, "the photo looks as before");
    await target.waitForTimeout(50);
  }
}
const tile = (id) => `#tile-${id}`;

/** From photo pixels to the screen, as the page shows it now. */
async function onScreen(target, points) {
  const place = await target.locator("#stage").getAttribute("data-place");
  const [scale, x, y] = place.split(",").map(Number);
  const box = await target.locator("#stage").boundingBox();
  return points.map(([px, py]) => [box.x + x + px * scale, box.y + y + py * scale]);
}

async function openPhoto(target, photo) {
  await target.evaluate((id) => (location.hash = `#photo-${id}`), photo.id);
  await target.waitForFunction((name) => document.getElementById("photo-name").textContent === name, photo.name);
  await target.waitForFunction(() => performance.now() > 0 && document.querySelector("#stage").dataset.place !== undefined);
  await settled(target);
}

const inside = (a, b) => a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;
const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** Waits until nothing is being saved and the photo in hand has the newest labels. */
async function settled(target) {
  await target.waitForFunction(
    async () => {
      if (document.querySelector("#saved").dataset.kind !== "saved") return false;
      const now = (await (await fetch("/api/project")).json()).revision;
      return Number(document.documentElement.dataset.revision) === now;
    },
    undefined,
    { timeout: 60000, polling: 150 },
  );
}

async function stroke(target, points, button = "left") {
  const [first, ...rest] = await onScreen(target, points);
  await target.mouse.move(...first);
  await target.mouse.down({ button });
  for (const point of rest) await target.mouse.move(...point, { steps: 3 });
  const measured = await target.evaluate(() => performance.getEntriesByName("stroke-to-answer").length);
  await target.mouse.up({ button });
  await target.waitForFunction((n) => performance.getEntriesByName("stroke-to-answer").length > n, measured);
  await settled(target);
}

/** A stroke well inside the thing of a photo. */
async function strokeOn(target, photo) {
  const spot = deepest(await thingMask(target, server, photo));
  assert.ok(spot.depth > 3, `${photo.name} shows no thing to paint`);
  const reach = Math.max(1, spot.depth - 4);
  await stroke(target, [[spot.x - reach, spot.y], [spot.x, spot.y], [spot.x + reach, spot.y]]);
}

async function photosWithThings(target) {
  const found = [];
  // The first ones, which are in view without scrolling.
  for (const photo of (await photoList(target)).slice(0, 18)) {
    const spot = deepest(await thingMask(target, server, photo));
    if (spot.depth >= 8) found.push({ ...photo, spot });
  }
  return found.sort((a, b) => b.spot.depth - a.spot.depth);
}

async function visibleSeen(target) {
  return target.$$eval(".tile:not([hidden])", (tiles) => {
    const list = document.querySelector("#photos").getBoundingClientRect();
    const inView = tiles.map((element) => ({ element, box: element.getBoundingClientRect() })).filter(({ box }) => box.bottom > list.top && box.top < list.bottom);
    return Object.fromEntries(inView.map(({ element }) => [element.id, element.dataset.seen]));
  });
}

/** Waits until all tiles in view show labels of the newest revision. */
async function galleryCaughtUp(target) {
  await target.waitForFunction(
    () => {
      const list = document.querySelector("#photos").getBoundingClientRect();
      const newest = Number(document.documentElement.dataset.changed);
      const seen = [...document.querySelectorAll(".tile:not([hidden])")].filter((element) => {
        const box = element.getBoundingClientRect();
        return box.bottom > list.top && box.top < list.bottom;
      });
      return seen.length > 0 && seen.every((element) => element.dataset.state === "failed" || (element.dataset.revision !== "" && Number(element.dataset.revision) >= newest));
    },
    undefined,
    { timeout: 60000, polling: 150 },
  );
}

async function picture(target, name) {
  if (!process.env.PROTOSEG_PICTURES || !server.real) return;
  await target.mouse.move(640, 30);
  await target.waitForTimeout(400);
  mkdirSync(docs, { recursive: true });
  const size = target.viewportSize();
  if (size.width > 1200) await target.setViewportSize({ width: 1184, height: 700 });
  await target.waitForTimeout(1500);
  await galleryCaughtUp(target).catch(() => {});
  const shot = await target.screenshot();
  await target.setViewportSize(size);
  const file = [256, 192, 128, 96, 64, 48].map((colours) => () => smallPng(shot, colours)).reduce((kept, make) => (kept && kept.length < 190_000 ? kept : make()), null);
  assert.ok(file.length < 200_000, `${name}: ${file.length} bytes`);
  writeFileSync(join(docs, `studio-${name}.png`), file);
}

describe("the studio", { skip, concurrency: false }, () => {
  let things = [];

  before(async () => {
    server = await startServer(40);
    browser = await openBrowser();
    [context, page] = await newPage();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    server?.remove?.();
  });

  test("opens with photos and says what to do first", async () => {
    await open(page);
    assert.match(await page.textContent("#photo-count"), /^40 photos/);
    assert.ok((await page.locator(".tile:visible").count()) > 10);
    assert.match(await page.textContent(".hint"), /name/i);
    await page.waitForFunction(() => document.querySelector("#features").hidden || !document.querySelector("#features progress:not([hidden])"), undefined, { timeout: 120000 });
    things = await photosWithThings(page);
    assert.ok(things.length >= 6);
  });

  test("makes a class with the keyboard", async () => {
    await page.keyboard.press("c");
    await page.keyboard.type("duck");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".class-row");
    assert.equal((await project(page)).classes[0].name, "duck");
    assert.equal(await page.evaluate(() => document.activeElement.id), "stage");
  });

  test("paints a class on two photos, and every other photo follows", async () => {
    await galleryCaughtUp(page);
    const nothing = await visibleSeen(page);
    await openPhoto(page, things[0]);
    await strokeOn(page, things[0]);
    await galleryCaughtUp(page);
    const one = await visibleSeen(page);
    const others = Object.keys(one).filter((id) => id !== `tile-${things[0].id}`);
    assert.ok(others.some((id) => one[id] !== nothing[id] && one[id] !== ""), "no other photo changed");
    await openPhoto(page, things[1]);
    await strokeOn(page, things[1]);
    await galleryCaughtUp(page);
    const two = await visibleSeen(page);
    assert.notDeepEqual(two, one);
    const state = await project(page);
    assert.deepEqual([...state.classes[0].painted_photos].sort(), [things[0].id, things[1].id].sort());
  });

  test("undo and redo bring the overlays back", async () => {
    const painted = await visibleSeen(page);
    await page.keyboard.press("Control+z");
    await page.waitForFunction(() => !document.querySelector("#redo").disabled);
    await settled(page);
    await galleryCaughtUp(page);
    assert.equal((await project(page)).classes[0].painted_photos.length, 1);
    assert.notDeepEqual(await visibleSeen(page), painted);
    await page.keyboard.press("Control+Shift+z");
    await page.waitForFunction(() => document.querySelector("#redo").disabled);
    await settled(page);
    await galleryCaughtUp(page);
    assert.equal((await project(page)).classes[0].painted_photos.length, 2);
    assert.deepEqual(await visibleSeen(page), painted);
  });

  test("finds it all again after a reload", async () => {
    const seen = await visibleSeen(page);
    const name = await page.textContent("#photo-name");
    await page.reload();
    await page.waitForSelector("#stage[data-revision]", { timeout: patience });
    assert.equal(await page.textContent("#photo-name"), name);
    assert.equal(await page.locator(".class-row").count(), 1);
    await galleryCaughtUp(page);
    assert.equal(await page.locator(".tile-dots i").count(), 2);
    const again = await visibleSeen(page);
    for (const id of Object.keys(again)) if (id in seen) assert.equal(again[id], seen[id]);
  });

  test("sees less after a negative stroke", async () => {
    const seen = async (photo) => Number(/1:([\d.]+)/.exec(await page.getAttribute(tile(photo.id), "data-seen"))?.[1] ?? 0);
    for (const photo of things.slice(0, 2)) {
      await openPhoto(page, photo);
      const before = await seen(photo);
      // Around the thing: above it, and along the edge below.
      const { width, height, inside } = await thingMask(page, server, photo);
      for (const share of [0.08, 0.3, 0.97]) {
        const y = Math.round(share * (height - 1));
        const free = [];
        for (let x = 12; x < width - 12; x += 1) {
          const far = [-14, 0, 14].every((dx) => [-14, 0, 14].every((dy) => !inside[Math.min(height - 1, Math.max(0, y + dy)) * width + Math.min(width - 1, Math.max(0, x + dx))]));
          if (far) free.push(x);
          else if (free.length > 40) break;
          else free.length = 0;
        }
        if (free.length > 40) await stroke(page, [[free[0], y], [free.at(-1), y]], "right");
      }
      await galleryCaughtUp(page);
      assert.ok((await seen(photo)) <= before);
    }
  });

  test("shows the leave-one-out check beside the strokes", async () => {
    await page.waitForSelector(".check-row", { timeout: patience });
    assert.equal(await page.locator(".check-row").count(), 2);
    await page.locator(".check-row").first().click();
    const label = await page.locator(".check-row.chosen").getAttribute("aria-label");
    assert.match(label, /overlap \d+ %/);
    await page.click("[data-value=strokes]");
    await page.waitForSelector(".note:visible");
    assert.match(await page.textContent(".note"), /duck: \d+ % right without this photo/);
    const [note, stage] = [await page.locator(".note").boundingBox(), await page.locator(".stage-canvas").boundingBox()];
    assert.ok(inside(note, stage), "the note is cut off");
    await picture(page, "strokes");
    await page.click("[data-value=overlay]");
    await picture(page, "overlay");
  });

  test("hides and recolours without asking for labels", async () => {
    await galleryCaughtUp(page);
    const asked = [];
    const listen = (request) => /labels/.test(request.url()) && asked.push(request.url());
    const shown = await look(page);
    page.on("request", listen);
    await page.click('[aria-label="Hide duck"]');
    await looksOther(page, shown);
    const hidden = await look(page);
    await page.click('[aria-label="Show duck"]');
    await looksOther(page, hidden);
    await page.locator("input[type=color]").first().evaluate((input) => {
      input.value = "#1f9cf0";
      input.dispatchEvent(new Event("change"));
    });
    await looksOther(page, shown);
    await settled(page);
    page.off("request", listen);
    assert.deepEqual(asked, []);
    assert.equal((await project(page)).classes[0].color, "#1f9cf0");
    await page.locator("input[type=color]").first().evaluate((input) => {
      input.value = "#e6194b";
      input.dispatchEvent(new Event("change"));
    });
    await settled(page);
  });

  test("paints by polygon, rectangle, magic click and mask, negative and erasing", async () => {
    await openPhoto(page, things[2]);
    const { spot } = things[2];
    const pixels = async () => {
      const buffer = await page.evaluate(async (id) => [...new Uint8Array(await (await fetch(`/api/photos/${id}/painted?side=2000`)).arrayBuffer())], things[2].id);
      const counts = { class: 0, negative: 0 };
      for (const value of buffer.slice(12)) {
        if (value === 254) counts.negative += 1;
        else if (value > 0) counts.class += 1;
      }
      return counts;
    };
    await page.keyboard.press("m");
    await stroke(page, [[spot.x, spot.y]]);
    const magic = (await pixels()).class;
    assert.ok(magic > spot.depth * spot.depth, `magic click painted ${magic} pixels`);

    await page.keyboard.press("r");
    await stroke(page, [[2, 2], [22, 12]], "right");
    const negative = (await pixels()).negative;
    assert.ok(negative >= 150 && negative <= 300, `${negative} negative pixels`);

    await page.keyboard.press("e");
    await page.keyboard.press("r");
    await stroke(page, [[1, 1], [30, 30]]);
    assert.equal((await pixels()).negative, 0);

    await page.keyboard.press("a");
    await page.keyboard.press("p");
    const before = (await pixels()).class;
    for (const [x, y] of await onScreen(page, [[4, 4], [40, 4], [4, 40]])) await page.mouse.click(x, y);
    const answered = await page.evaluate(() => performance.getEntriesByName("stroke-to-answer").length);
    await page.keyboard.press("Enter");
    await page.waitForFunction((n) => performance.getEntriesByName("stroke-to-answer").length > n, answered);
    await settled(page);
    const triangle = (await pixels()).class - before;
    assert.ok(triangle > 500 && triangle < 850, `the triangle has ${triangle} pixels`);

    const size = { width: things[2].width, height: things[2].height };
    const mask = new Uint8Array(3 * size.width * size.height);
    for (let y = 50; y < 60; y += 1) mask.fill(255, 3 * (y * size.width), 3 * (y * size.width + 50));
    await page.setInputFiles("#mask-file", { name: "mask.png", mimeType: "image/png", buffer: writePng(size.width, size.height, mask) });
    await page.waitForSelector("text=Mask loaded");
    await settled(page);

    // Of a mask with two values, one is chosen.
    const single = (await pixels()).class;
    mask.fill(0);
    for (let y = 70; y < 80; y += 1) mask.fill(2, 3 * (y * size.width), 3 * (y * size.width + 50)).fill(7, 3 * (y * size.width + 60), 3 * (y * size.width + 80));
    await page.setInputFiles("#mask-file", { name: "index.png", mimeType: "image/png", buffer: writePng(size.width, size.height, mask) });
    await page.waitForSelector(".mask-dialog[open]");
    assert.match(await page.textContent(".mask-dialog"), /holds 2 values/);
    await page.click(".mask-dialog >> text=Value 7");
    await page.waitForSelector("text=Mask loaded: 200 pixels");
    await settled(page);
    assert.ok((await pixels()).class <= single + 200);
    for (let step = 0; step < 6; step += 1) {
      const { revision } = await project(page);
      await page.click("#undo");
      await page.waitForFunction((n) => Number(document.documentElement.dataset.revision) > n, revision);
      await settled(page);
    }
    assert.deepEqual(await pixels(), { class: 0, negative: 0 });
    await page.keyboard.press("b");
  });

  test("knows several classes, and the views show what they should", async () => {
    await page.keyboard.press("c");
    await page.keyboard.type("ground");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".class-row:nth-child(2).chosen");
    await openPhoto(page, things[3]);
    const bottom = things[3].height - 6;
    await stroke(page, [[10, bottom], [things[3].width - 10, bottom]]);
    await galleryCaughtUp(page);
    const shown = new Set();
    for (const view of ["overlay", "confidence", "changed", "strokes", "photo"]) {
      await page.click(`[data-value=${view}]`);
      await page.waitForTimeout(150);
      shown.add(await look(page));
      if (view === "changed") assert.match(await page.textContent(".stage-banner"), /% of this photo changed/);
      if (view === "confidence") await picture(page, view);
    }
    assert.equal(shown.size, 5);
    await page.click("[data-value=overlay]");
    await page.keyboard.press("1");
    assert.match(await page.locator(".class-row.chosen").textContent(), /duck/);
  });

  test("shows the photo it is least sure of, and another one when asked again", async () => {
    const name = () => page.textContent("#photo-name");
    const first = await name();
    await page.click("#least-sure");
    await page.waitForFunction((old) => document.getElementById("photo-name").textContent !== old, first);
    const second = await name();
    await page.click("#least-sure");
    await page.waitForFunction((old) => document.getElementById("photo-name").textContent !== old, second);
  });

  test("takes photos that are dropped on it", async () => {
    const drawn = readPng(Buffer.from(await page.evaluate(async () => {
      const canvas = document.createElement("canvas");
      canvas.width = 200;
      canvas.height = 150;
      const context = canvas.getContext("2d");
      context.fillStyle = "#4a8040";
      context.fillRect(0, 0, 200, 150);
      context.fillStyle = "#ecbe34";
      context.fillRect(60, 50, 80, 50);
      const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
      return [...new Uint8Array(await blob.arrayBuffer())];
    })));
    const data = [...writePng(200, 150, drawn.rgb)];
    const transfer = await page.evaluateHandle((bytes) => {
      const result = new DataTransfer();
      result.items.add(new File([new Uint8Array(bytes)], "dropped photo.png", { type: "image/png" }));
      return result;
    }, data);
    await page.dispatchEvent("body", "dragenter", { dataTransfer: transfer });
    await page.waitForSelector(".curtain:visible");
    await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
    await page.waitForFunction(() => document.querySelector("#photo-count").textContent.startsWith("41"), undefined);
    assert.ok((await photoList(page)).some((photo) => photo.name === "dropped photo.png"));
    await page.waitForSelector(".toast >> text=Load a mask");
  });

  test("can be used with the keyboard alone", async () => {
    const [made, own] = await newPage();
    await open(own);
    await own.keyboard.press("Tab");
    assert.match(await own.evaluate(() => document.activeElement.textContent), /Skip/);
    await own.keyboard.press("Enter");
    assert.equal(await own.evaluate(() => document.activeElement.id), "stage");
    await own.focus("#photos");
    await own.keyboard.press("End");
    await own.keyboard.press("Enter");
    await own.waitForFunction(() => document.getElementById("photo-name").textContent === "dropped photo.png");
    await settled(own);
    await own.focus("#stage");
    await own.keyboard.press("1");
    await own.keyboard.press("b");
    await own.keyboard.press("Enter");
    for (let step = 0; step < 4; step += 1) await own.keyboard.press("ArrowRight");
    const answered = await own.evaluate(() => performance.getEntriesByName("stroke-to-answer").length);
    await own.keyboard.press("Enter");
    await own.waitForFunction((n) => performance.getEntriesByName("stroke-to-answer").length > n, answered);
    await own.waitForFunction(() => /painted as duck/.test(document.querySelector("#live").textContent));
    await settled(own);
    await own.keyboard.press("Control+z");
    await settled(own);
    await own.keyboard.press("?");
    await own.waitForSelector("dialog[open]");
    await own.keyboard.press("Escape");
    assert.equal(await own.locator("dialog[open]").count(), 0);
    await own.focus("#export");
    await own.keyboard.press("Enter");
    await own.waitForFunction(() => document.querySelector(".commands pre").textContent.includes("protoseg predict"));
    await own.keyboard.press("Escape");
    assert.equal(await own.evaluate(() => document.activeElement.id), "export");
    await made.close();
  });

  test("gives every control a name", async () => {
    const nameless = await page.$$eval("button, input:not([hidden]), select, [role=option], [role=separator], canvas[tabindex]", (all) =>
      all
        .filter((element) => !element.getAttribute("aria-label") && !element.textContent.trim() && !element.labels?.length)
        .map((element) => element.outerHTML.slice(0, 120)),
    );
    assert.deepEqual(nameless, []);
  });

  test("works at a phone's width, by touch", async () => {
    for (const colorScheme of ["light", "dark"]) {
      const [made, own] = await newPage({ viewport: phone, hasTouch: true, isMobile: true, deviceScaleFactor: 2, colorScheme });
      await open(own);
      const wide = await own.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `the page is ${wide} pixels wide`);
      await own.tap("[data-tab=photos]");
      await own.waitForSelector(".tile:visible");
      await own.tap(tile((await photoList(own))[0].id));
      await own.waitForSelector("#stage:visible");
      await settled(own);
      if (colorScheme === "light") {
        await own.tap("[data-value=magic]");
        const before = (await project(own)).revision;
        const photo = (await photoList(own)).find((item) => item.id === things[4].id);
        await own.tap("[data-tab=photos]");
        await own.locator(tile(photo.id)).tap();
        await settled(own);
        const [[x, y]] = await onScreen(own, [[things[4].spot.x, things[4].spot.y]]);
        await own.touchscreen.tap(x, y);
        await own.waitForFunction((n) => Number(document.documentElement.dataset.revision) > n, before);
        await settled(own);
        await picture(own, "phone");
      }
      await own.tap("[data-tab=classes]");
      await own.waitForSelector(".class-row:visible");
      await made.close();
    }
  });

  test("is quick: stroke to overlay, and to all photos in view", async () => {
    const [made, own] = await newPage();
    await open(own);
    await own.locator("#tile-size").evaluate((input) => {
      input.value = "68";
      input.dispatchEvent(new Event("input"));
    });
    await openPhoto(own, things[0]);
    await own.keyboard.press("b");
    await own.keyboard.press("1");
    await galleryCaughtUp(own);
    await own.evaluate(() => performance.clearMeasures());
    const strokes = server.real ? 24 : 6;
    for (let count = 0; count < strokes; count += 1) {
      const { spot } = things[0];
      const visible = await own.evaluate(() => performance.getEntriesByName("stroke-to-visible").length);
      await stroke(own, [[spot.x - 3 + (count % 5), spot.y], [spot.x + 3, spot.y + (count % 3)]]);
      await own.waitForFunction((n) => performance.getEntriesByName("stroke-to-visible").length > n, visible);
    }
    const read = (name) => own.evaluate((key) => performance.getEntriesByName(key).map((entry) => ({ time: entry.duration, photos: entry.detail?.photos })), name);
    const overlay = await read("stroke-to-overlay");
    const visible = await read("stroke-to-visible");
    const answer = await read("stroke-to-answer");
    const line = (list) => `median ${median(list.map((entry) => entry.time)).toFixed(0)} ms, slowest ${Math.max(...list.map((entry) => entry.time)).toFixed(0)} ms of ${list.length}`;
    console.log(`stroke to answer:  ${line(answer)}`);
    console.log(`stroke to overlay: ${line(overlay)}`);
    console.log(`stroke to all ${median(visible.map((entry) => entry.photos))} photos in view: ${line(visible)}`);
    assert.equal(overlay.length, strokes);
    assert.ok(median(visible.map((entry) => entry.photos)) >= 30);
    // Limits only where asked for: a busy machine is no fault of the page.
    if (process.env.PROTOSEG_STRICT) {
      assert.ok(median(overlay.map((entry) => entry.time)) < 100);
      assert.ok(median(visible.map((entry) => entry.time)) < 1000);
    }
    for (let count = 0; count < strokes; count += 1) await own.evaluate(() => fetch("/api/undo", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" }));
    await made.close();
  });

  test("exports the pack, and the command line finds the same mask with it", async () => {
    await page.click("#export");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("[data-export=pack]")]);
    const path = join(tmpdir(), `studio-${process.pid}.pack`);
    await download.saveAs(path);
    assert.ok(readFileSync(path).length > 100);
    await page.waitForSelector(".toast >> text=is in your downloads");
    assert.equal(await page.locator(".toast >> text=Preparing").count(), 0);
    const toast = await page.locator(".toast").last().boundingBox();
    for (const used of ["#photo-name", "#stage", "#export", "#new-class"]) assert.ok(!overlap(toast, await page.locator(used).boundingBox()), `a notice covers ${used}`);
    if (!server.real) return;
    const photo = (await photoList(page)).find((item) => item.id === things[5].id);
    const out = join(server.folder, "out");
    const done = spawnSync(binary, ["predict", "--pack", path, join(server.photos, photo.name), "-o", out], { encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
    const index = readdirSync(join(out, "index"));
    const { width, height, indices } = readPng(readFileSync(join(out, "index", index[0])));
    const shown = Buffer.from(await page.evaluate(async (id) => [...new Uint8Array(await (await fetch(`/api/photos/${id}/labels?side=100000`)).arrayBuffer())], photo.id));
    assert.deepEqual([shown.readUInt16LE(4), shown.readUInt16LE(6)], [width, height]);
    const ids = shown.subarray(12, 12 + width * height);
    // The numbers differ, but each of one stands for one of the other.
    const pairs = new Set(Array.from(indices, (value, i) => 256 * value + ids[i]));
    const counts = [...pairs].map((pair) => `${pair >> 8} is ${pair & 255}`);
    console.log(`pack with the command line, ${width * height} pixels: ${counts.join(", ")}`);
    assert.ok(pairs.size >= 2, "nothing was seen");
    assert.equal(new Set([...pairs].map((pair) => pair >> 8)).size, pairs.size);
    assert.equal(new Set([...pairs].map((pair) => pair & 255)).size, pairs.size);
  });

  test("loses at most the last stroke when it is killed in the middle of painting", { skip: binary ? false : "needs the real program" }, async () => {
    await openPhoto(page, things[0]);
    await page.keyboard.press("b");
    await page.keyboard.press("a");
    await page.keyboard.press("1");
    const stripe = (number) => [20, 60].map((x) => [x, 20 + 40 * number]);
    /** What is painted at the end of each stripe. */
    const ends = async (target) => {
      const bytes = Buffer.from(await target.evaluate(async (id) => [...new Uint8Array(await (await fetch(`/api/photos/${id}/painted?side=100000`)).arrayBuffer())], things[0].id));
      return [0, 1, 2, 3, 4].map(stripe).map(([, [x, y]]) => bytes[12 + y * bytes.readUInt16LE(4) + x]);
    };
    for (const number of [0, 1, 2]) await stroke(page, stripe(number));
    const [state, painted] = [await project(page), await ends(page)];
    assert.deepEqual(painted.slice(0, 3), [1, 1, 1]);
    const [fourth, fifth] = [await onScreen(page, stripe(3)), await onScreen(page, stripe(4))];
    isKilled = true;
    // One stroke is on its way and another one is being painted.
    const begin = async ([from, to]) => {
      await page.mouse.move(...from);
      await page.mouse.down();
      await page.mouse.move(...to, { steps: 3 });
    };
    await begin(fourth);
    await page.mouse.up();
    await begin(fifth);
    await server.stop("SIGKILL");
    await page.mouse.up();
    await page.waitForSelector("#saved[data-kind=offline]");
    await page.waitForSelector(".toast.error >> text=was not saved");
    await context.close();
    const again = await startReal(server.photos);
    server.stop = again.stop;
    server.start = again.start;
    server.address = again.address;
    const [made, own] = await newPage();
    await open(own);
    const after = await project(own);
    assert.deepEqual(after.classes.map(({ name }) => name), state.classes.map(({ name }) => name));
    const kept = await ends(own);
    assert.deepEqual([...kept.slice(0, 3), kept[4]], [1, 1, 1, painted[4]]);
    assert.ok(kept[3] === painted[3] || kept[3] === 1);
    await made.close();
  });

  test("had no error in any page", () => {
    assert.deepEqual(problems, []);
  });
});

describe("the page alone", { skip, concurrency: false }, () => {
  let browserHere;

  before(async () => {
    browserHere = await openBrowser();
  });

  // Also those of a test that failed.
  const mocks = new Set();

  after(async () => {
    await browserHere?.close();
    for (const mock of mocks) await mock.stop();
  });

  async function visit(mock, options = {}) {
    mocks.add(mock);
    const target = await (await browserHere.newContext({ viewport: desktop, ...options })).newPage();
    target.setDefaultTimeout(patience);
    await target.goto(mock.start);
    return target;
  }

  test("stays light with a thousand photos", async () => {
    const mock = await startMock({ photos: 1000, featureDelay: 1000, delay: 2 });
    const target = await visit(mock);
    await target.waitForFunction(() => document.querySelector("#photo-count").textContent.startsWith("1,000"));
    const frames = await target.evaluate(async () => {
      const list = document.querySelector("#photos");
      const times = [];
      let last = performance.now();
      for (let step = 0; step < 90; step += 1) {
        list.scrollTop += 180;
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - last);
        last = performance.now();
      }
      return times;
    });
    const tiles = await target.locator(".tile").count();
    console.log(`1,000 photos: ${tiles} tiles exist, median frame while scrolling ${median(frames).toFixed(0)} ms`);
    assert.ok(tiles < 120, `${tiles} tiles`);
    if (process.env.PROTOSEG_STRICT) assert.ok(median(frames) < 34);
    await mock.stop();
  });

  test("stays where it was scrolled to when photos are listed again", async () => {
    const mock = await startMock({ photos: 200 });
    const target = await visit(mock);
    await target.waitForFunction(() => document.querySelector("#photo-count").textContent.startsWith("200"));
    await target.evaluate(() => (document.querySelector("#photos").scrollTop = 130));
    const listed = target.waitForResponse((response) => response.url().includes("/api/photos?"));
    await target.selectOption('[aria-label="Order"]', "unsure");
    await target.selectOption('[aria-label="Order"]', "folder");
    await listed;
    await target.waitForTimeout(300);
    assert.equal(await target.evaluate(() => document.querySelector("#photos").scrollTop), 130);
    await mock.stop();
  });

  test("teaches when there is no photo", async () => {
    const mock = await startMock({ photos: 0 });
    const target = await visit(mock);
    await target.waitForSelector(".hint.centre:visible");
    assert.match(await target.textContent(".hint"), /Drop photos/);
    await mock.stop();
  });

  test("shows errors as a sentence with a hint", async () => {
    const mock = await startMock({ photos: 5 });
    const target = await visit(mock);
    await target.waitForSelector("#stage[data-revision]");
    await target.click("#export");
    await target.click("[data-export=pack]");
    await target.waitForSelector(".toast.error");
    assert.match(await target.textContent(".toast.error"), /There is no class to export yet.*Paint a class first/);
    await target.click(".toast.error button");
    await target.mouse.click(640, 400);
    await target.waitForSelector(".toast.error");
    assert.match(await target.textContent(".toast.error"), /Add a class first/);
    await mock.stop();
    await target.waitForSelector("#saved[data-kind=offline]");
  });

  test("fits every window while photos are looked at", async () => {
    const mock = await startMock({ photos: 200, featureDelay: 2000 });
    for (const [width, height] of [[1366, 768], [1280, 800], [900, 800], [844, 390], [740, 360], [568, 320], [390, 844]]) {
      const target = await visit(mock, { viewport: { width, height }, ...(width < 850 ? { hasTouch: true, isMobile: true } : {}) });
      await target.waitForSelector("#features progress:visible");
      await target.waitForSelector("#stage[data-place]");
      await target.waitForTimeout(200);
      const window = { x: 0, y: 0, width, height };
      const size = `at ${width} x ${height}`;
      const page = await target.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]);
      assert.ok(page[0] <= width && page[1] <= height, `the page is ${page} ${size}`);
      const boxes = (selector) => target.$$eval(selector, (all) => all.map((element) => ({ ...element.getBoundingClientRect().toJSON(), name: element.ariaLabel ?? element.id })).filter((box) => box.width > 0));
      const bar = await boxes(".bar button, .side, .gallery .panel-head > *");
      for (const box of bar) assert.ok(inside(box, window), `${box.name} is cut off ${size}`);
      const first = await boxes("#undo, #export, .bar > button:last-child");
      for (const box of first) assert.ok(box.y < 20, `${box.name} is in a second row ${size}`);
      const [paint] = await boxes(".paint");
      for (const box of await boxes(".toolbar button, .toolbar input")) assert.ok(inside(box, paint), `${box.name} is outside of the photo's panel ${size}`);
      if (width === 1280 || width === 390) assert.ok(await target.locator(".modes >> text=Not this").isVisible(), `no words ${size}`);
      const [stage] = await boxes(".stage-canvas");
      if (height < 500) assert.ok(stage.height > 0.6 * height && stage.width > 0.6 * width, `the photo has ${stage.width} x ${stage.height} ${size}`);
      if (width === 390) {
        const low = await target.$$eval("button, select, input:not([type=checkbox])", (all) => all.filter((element) => element.offsetHeight > 0 && element.offsetHeight < 40).map((element) => element.outerHTML.slice(0, 100)));
        assert.deepEqual(low, []);
      }
      await target.context().close();
    }
    await mock.stop();
  });

  test("keeps notices, hints and the page in their place", async () => {
    const mock = await startMock({ photos: 5 });
    const target = await visit(mock);
    await target.waitForSelector("#stage[data-revision]");
    await target.evaluate(() => (location.hash = "#photo-3"));
    await target.waitForFunction(() => document.getElementById("photo-name").textContent === "scene-003.png");
    assert.deepEqual(await target.evaluate(() => [scrollY, document.documentElement.scrollTop, document.documentElement.scrollHeight - innerHeight]), [0, 0, 0]);
    const addClass = async (name) => {
      await target.fill("#new-class", name);
      await target.press("#new-class", "Enter");
      await target.waitForSelector(`.class-row >> text=${name}`);
    };
    await addClass("duck");
    await target.waitForSelector(".hint >> text=Paint your first");
    const line = (y) => [[40, y], [80, y]];
    const isClear = async () => {
      await target.waitForTimeout(100);
      const [photo] = await target.evaluate(async () => (await (await fetch("/api/photos?offset=2&limit=1")).json()).photos);
      const [[left, top], [right, bottom]] = await onScreen(target, [[0, 0], [photo.width, photo.height]]);
      return !overlap(await target.locator(".hint").boundingBox(), { x: left, y: top, width: right - left, height: bottom - top });
    };
    assert.ok(await isClear(), "the first hint covers the photo");
    await stroke(target, line(60));
    await target.waitForSelector(".hint >> text=Look at the other photos");
    assert.ok(await isClear(), "the second hint covers the photo");
    await stroke(target, line(70));
    await target.waitForSelector(".hint", { state: "hidden" });

    // Undo of a removed class is offered until the next change only.
    await addClass("tree");
    await target.hover(".class-row >> nth=1");
    await target.click('[aria-label="Remove tree"]');
    await target.waitForSelector(".toast >> text=Class tree removed");
    assert.equal(await target.locator(".toast .link").count(), 1);
    await stroke(target, line(80));
    assert.equal(await target.locator(".toast .link").count(), 0);

    // A stroke that reaches nobody is not lost in silence.
    const { revision } = mock.studio;
    await mock.stop();
    const [from, to] = await onScreen(target, line(90));
    await target.mouse.move(...from);
    await target.mouse.down();
    await target.mouse.move(...to);
    await target.mouse.up();
    await target.waitForSelector(".toast.error >> text=was not saved");
    assert.equal(mock.studio.revision, revision);
  });

  test("zooms and pans without painting", async () => {
    const mock = await startMock({ photos: 3 });
    const target = await visit(mock);
    await target.waitForSelector("#stage[data-revision]");
    const scale = async () => Number((await target.getAttribute("#stage", "data-place")).split(",")[0]);
    const start = await scale();
    await target.mouse.move(640, 400);
    await target.mouse.wheel(0, -400);
    await target.waitForTimeout(100);
    assert.ok((await scale()) > start * 1.5);
    const place = await target.getAttribute("#stage", "data-place");
    await target.focus("#stage");
    await target.keyboard.down("Space");
    await target.mouse.down();
    await target.mouse.move(700, 450, { steps: 4 });
    await target.mouse.up();
    await target.keyboard.up("Space");
    await target.waitForTimeout(100);
    assert.notEqual(await target.getAttribute("#stage", "data-place"), place);
    assert.equal(mock.studio.history.length, 0);
    await target.keyboard.press("0");
    await target.waitForTimeout(100);
    assert.ok(Math.abs((await scale()) - start) < 0.01);
    await mock.stop();
  });
});
