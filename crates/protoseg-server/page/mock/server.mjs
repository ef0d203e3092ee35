// A stand-in for protoseg-server that speaks the same addresses, for developing and testing the page alone. It "sees"
// by colour only. Nothing is written to disk.
//
//     node mock/server.mjs [--port 8123] [--photos 40] [--delay MILLISECONDS]
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readPng, writePng } from "./png.mjs";
import { scene, sceneSize } from "./scene.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "..", "assets");
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const policy = "default-src 'self'; img-src 'self' blob: data:";

export async function startMock({ port = 0, photos = 40, delay = 8, featureDelay = 25, token = "mock" } = {}) {
  const studio = new Studio(photos, delay);
  studio.look(featureDelay);
  const server = createServer((request, response) => {
    studio.handle(request, response, token).catch((error) => {
      if (error instanceof Refusal) return json(response, error.status, { error: error.message, hint: error.hint });
      console.error(error);
      json(response, 500, { error: "the mock failed", hint: String(error) });
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}`;
  return {
    address,
    start: `${address}/?token=${token}`,
    studio,
    stop: () => {
      clearInterval(studio.timer);
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

class Refusal extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

function json(response, status, body) {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

class Studio {
  constructor(photos, delay) {
    this.delay = delay;
    this.revision = 1;
    this.photos = [];
    this.classes = [];
    this.history = [];
    this.future = [];
    this.listeners = new Set();
    this.checksRevision = 0;
    this.nextClass = 1;
    for (let id = 1; id <= photos; id += 1) this.photos.push({ id, name: `scene-${String(id).padStart(3, "0")}.png`, picture: null, paint: null, ready: false });
    this.queue = this.photos.map((photo) => photo.id);
  }

  photo(id) {
    const photo = this.photos.find((item) => item.id === Number(id));
    if (!photo) throw new Refusal(404, `there is no photo \`${id}\``, "reload the page");
    photo.picture ??= scene(photo.id);
    photo.paint ??= new Uint8Array(photo.picture.width * photo.picture.height);
    return photo;
  }

  /** Photos become ready one after another, as features would. */
  look(milliseconds) {
    this.timer = setInterval(() => {
      const id = this.queue.shift();
      if (id === undefined) return;
      const photo = this.photo(id);
      photo.ready = true;
      this.tell("features", { photo: id, done: this.photos.filter((item) => item.ready).length, total: this.photos.length });
    }, milliseconds);
  }

  tell(event, data) {
    for (const listener of this.listeners) listener.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Takes note of the state before a change, for undo. */
  change(photo) {
    this.history.push(this.snapshot(photo));
    if (this.history.length > 100) this.history.shift();
    this.future = [];
  }

  snapshot(photo) {
    const paints = photo === null ? this.photos.filter((item) => item.paint).map((item) => [item.id, item.paint.slice()]) : [[photo.id, photo.paint.slice()]];
    return { photo: photo?.id ?? null, paints, classes: structuredClone(this.classes) };
  }

  changed() {
    this.revision += 1;
    this.prototypes = null;
    this.tell("revision", { revision: this.revision });
    clearTimeout(this.checkTimer);
    const revision = this.revision;
    this.checkTimer = setTimeout(() => {
      this.checks = this.check();
      this.checksRevision = revision;
      this.tell("checks", { revision });
    }, 150);
  }

  step(from, to) {
    const saved = from.pop();
    if (!saved) throw new Refusal(409, "there is nothing left to undo or redo");
    to.push(this.snapshot(saved.photo === null ? null : this.photo(saved.photo)));
    for (const [id, paint] of saved.paints) this.photo(id).paint = paint;
    this.classes = saved.classes;
    this.changed();
    return { revision: this.revision, photo: saved.photo };
  }

  /** Mean colour of each class and of what is none of them, from all photos but one. */
  learn(without = null) {
    const all = new Map();
    for (const photo of this.photos) {
      if (!photo.paint || photo.id === without) continue;
      for (const [id, sum] of this.sums(photo)) all.set(id, (all.get(id) ?? [0, 0, 0, 0]).map((value, k) => value + sum[k]));
    }
    return [...all].map(([id, [r, g, b, n]]) => ({ id, colour: [r / n, g / n, b / n] }));
  }

  /** Sums of colours, and the number of pixels, of each class painted in a photo. */
  sums(photo) {
    if (photo.summed === photo.paint) return photo.sumsKept;
    const sums = new Map();
    for (let i = 0; i < photo.paint.length; i += 1) {
      const id = photo.paint[i];
      if (id === 0) continue;
      const sum = sums.get(id) ?? [0, 0, 0, 0];
      for (let k = 0; k < 3; k += 1) sum[k] += photo.picture.rgb[3 * i + k];
      sum[3] += 1;
      sums.set(id, sum);
    }
    photo.summed = photo.paint;
    photo.sumsKept = sums;
    return sums;
  }

  label(photo, side, prototypes = (this.prototypes ??= this.learn())) {
    const { width, height, rgb } = photo.picture;
    const factor = Math.min(1, side / Math.max(width, height));
    const [w, h] = [Math.max(1, Math.round(width * factor)), Math.max(1, Math.round(height * factor))];
    const ids = new Uint8Array(w * h);
    const confidence = new Uint8Array(w * h).fill(255);
    for (let y = 0; y < h; y += 1) {
      const row = Math.min(height - 1, Math.floor((y + 0.5) / factor)) * width;
      for (let x = 0; x < w; x += 1) {
        const at = 3 * (row + Math.min(width - 1, Math.floor((x + 0.5) / factor)));
        let [best, second, id] = [52, 90, 0];
        for (const { id: other, colour } of prototypes) {
          const d = Math.hypot(rgb[at] - colour[0], rgb[at + 1] - colour[1], rgb[at + 2] - colour[2]);
          if (d < best) [second, best, id] = [best, d, other === 254 ? 0 : other];
          else if (d < second) second = d;
        }
        ids[y * w + x] = id;
        confidence[y * w + x] = Math.round(255 * Math.min(1, 0.35 + (second - best) / 60));
      }
    }
    return { w, h, ids, confidence };
  }

  check() {
    const result = [];
    for (const item of this.classes) {
      const painted = this.paintedPhotos(item.id);
      for (const id of painted) {
        const photo = this.photo(id);
        if (painted.length < 2) {
          result.push({ class: item.id, photo: id, iou: null, confused_with: [] });
          continue;
        }
        const { ids } = this.label(photo, 10000, this.learn(id));
        let [hit, all] = [0, 0];
        const taken = new Map();
        for (let i = 0; i < ids.length; i += 1) {
          if (photo.paint[i] !== item.id) continue;
          all += 1;
          if (ids[i] === item.id) hit += 1;
          else taken.set(ids[i], (taken.get(ids[i]) ?? 0) + 1);
        }
        const confused = [...taken].map(([other, count]) => ({ class: other, share: count / all })).sort((a, b) => b.share - a.share);
        result.push({ class: item.id, photo: id, iou: hit / Math.max(1, all), confused_with: confused });
      }
    }
    return result;
  }

  paintedPhotos(id) {
    return this.photos.filter((photo) => photo.paint && this.sums(photo).has(id)).map((photo) => photo.id);
  }

  uncertainty(photo) {
    if (!photo.ready || this.classes.length === 0) return null;
    if (photo.unsureOf !== this.revision) {
      const { confidence } = this.label(photo, 32);
      photo.unsure = 1 - confidence.reduce((sum, value) => sum + value, 0) / confidence.length / 255;
      photo.unsureOf = this.revision;
    }
    return photo.unsure;
  }

  describe(photo) {
    const [width, height] = photo.picture ? [photo.picture.width, photo.picture.height] : sceneSize(photo.id);
    const painted = this.classes.map((item) => item.id).filter((id) => photo.paint && this.sums(photo).has(id));
    return { id: photo.id, name: photo.name, width, height, features: photo.ready ? "ready" : "waiting", error: null, painted, uncertainty: this.uncertainty(photo) };
  }

  project() {
    return {
      schema: "protoseg.studio/1",
      name: "ducks",
      revision: this.revision,
      can_undo: this.history.length > 0,
      can_redo: this.future.length > 0,
      photos: this.photos.length,
      features: { done: this.photos.filter((photo) => photo.ready).length, total: this.photos.length, failed: 0 },
      model: { name: "mock", side: 320 },
      classes: this.classes.map((item) => ({
        ...item,
        base: false,
        painted_photos: this.paintedPhotos(item.id),
        pixels: this.photos.reduce((sum, photo) => sum + (photo.paint ? (this.sums(photo).get(item.id)?.[3] ?? 0) : 0), 0),
      })),
      checks: this.checks ?? [],
      checks_revision: this.checksRevision,
    };
  }

  paint(photo, stroke) {
    const { width, height } = photo.picture;
    const value = { add: stroke.class, not: 254, erase: 0 }[stroke.mode];
    if (value === undefined || !Array.isArray(stroke.points) || stroke.points.length === 0) throw new Refusal(400, "the stroke has no points or an unknown mode");
    if (stroke.mode === "add" && !this.classes.some((item) => item.id === stroke.class)) throw new Refusal(404, `there is no class \`${stroke.class}\``);
    const inside = this.shape(photo, stroke);
    let pixels = 0;
    this.change(photo);
    photo.paint = photo.paint.slice();
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        if (!inside(x + 0.5, y + 0.5)) continue;
        photo.paint[y * width + x] = value;
        pixels += 1;
      }
    }
    this.changed();
    return { revision: this.revision, pixels, milliseconds: this.delay, box: [0, 0, width, height] };
  }

  shape(photo, { tool, points, radius }) {
    if (tool === "rectangle") {
      const [[ax, ay], [bx, by]] = [points[0], points.at(-1)];
      return (x, y) => x >= Math.min(ax, bx) && x <= Math.max(ax, bx) && y >= Math.min(ay, by) && y <= Math.max(ay, by);
    }
    if (tool === "polygon") {
      return (x, y) => {
        let odd = false;
        points.forEach(([ax, ay], i) => {
          const [bx, by] = points[(i + 1) % points.length];
          if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
        });
        return odd;
      };
    }
    if (tool === "magic") return this.flood(photo, points);
    return (x, y) =>
      points.some(([bx, by], i) => {
        const [ax, ay] = points[Math.max(0, i - 1)];
        const length = (bx - ax) ** 2 + (by - ay) ** 2;
        const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
        return Math.hypot(x - ax - t * (bx - ax), y - ay - t * (by - ay)) <= radius;
      });
  }

  /** Pixels of nearly the same colour around the clicks. */
  flood(photo, points) {
    const { width, height, rgb } = photo.picture;
    const found = new Uint8Array(width * height);
    for (const [px, py] of points) {
      const start = Math.min(height - 1, Math.max(0, Math.floor(py))) * width + Math.min(width - 1, Math.max(0, Math.floor(px)));
      const colour = [0, 1, 2].map((k) => rgb[3 * start + k]);
      const open = [start];
      while (open.length > 0) {
        const at = open.pop();
        if (found[at] || Math.hypot(...colour.map((value, k) => value - rgb[3 * at + k])) > 48) continue;
        found[at] = 1;
        const x = at % width;
        if (x > 0) open.push(at - 1);
        if (x + 1 < width) open.push(at + 1);
        if (at >= width) open.push(at - width);
        if (at + width < width * height) open.push(at + width);
      }
    }
    return (x, y) => found[Math.floor(y) * width + Math.floor(x)] === 1;
  }

  async handle(request, response, token) {
    const url = new URL(request.url, "http://mock");
    const path = url.pathname;
    response.setHeader("Content-Security-Policy", policy);
    if (url.searchParams.get("token") === token && path === "/") {
      response.writeHead(303, { Location: "/", "Set-Cookie": `protoseg_session_mock=${token}; HttpOnly; SameSite=Strict; Path=/` }).end();
      return;
    }
    if (!(request.headers.cookie ?? "").includes(`protoseg_session_mock=${token}`)) {
      json(response, 401, { error: "no session", hint: "open the printed address" });
      return;
    }
    if (path === "/" || path.startsWith("/assets/")) {
      const name = path === "/" ? "index.html" : path.slice(8).replaceAll("/", "");
      const body = await readFile(join(assets, name)).catch(() => null);
      if (!body) throw new Refusal(404, "not found");
      response.writeHead(200, { "Content-Type": types[extname(name)] ?? "application/octet-stream" }).end(body);
      return;
    }
    if (path === "/api/events") {
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      response.write(": hello\n\n");
      this.listeners.add(response);
      request.on("close", () => this.listeners.delete(response));
      return;
    }
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    const isJson = (request.headers["content-type"] ?? "").startsWith("application/json");
    if (request.method !== "GET" && !isJson && !/^(image\/|application\/octet-stream)/.test(request.headers["content-type"] ?? "")) {
      throw new Refusal(415, "the content type must be JSON or an image");
    }
    await this.route(request, response, url, isJson && body.length > 0 ? JSON.parse(body) : body);
  }

  async route(request, response, url, body) {
    const [, , kind, id, what] = url.pathname.split("/");
    const method = request.method;
    const side = Number(url.searchParams.get("side")) || 100000;
    if (kind === "project") return json(response, 200, this.project());
    if (kind === "photos" && !id && method === "GET") {
      const offset = Number(url.searchParams.get("offset")) || 0;
      const limit = Number(url.searchParams.get("limit")) || 200;
      return json(response, 200, { total: this.photos.length, photos: this.photos.slice(offset, offset + limit).map((photo) => this.describe(photo)) });
    }
    if (kind === "photos" && !id) return json(response, 201, this.addPhoto(body, decodeURIComponent(request.headers["x-name"] ?? "photo.png")));
    if (kind === "photos") return this.photoRoute(request, response, url, this.photo(id), what, side, body);
    if (kind === "labels") {
      await pause(this.delay);
      const parts = url.searchParams.get("photos").split(",").map((text) => this.labelPart(Number(text.split("@")[0]), text.includes("@") ? Number(text.split("@")[1]) : null, side));
      response.writeHead(200, { "Content-Type": "application/octet-stream", "Cache-Control": "no-store" }).end(Buffer.concat(parts));
      return;
    }
    if (kind === "classes") return json(response, method === "POST" ? 201 : 200, this.classRoute(method, id, body));
    if (kind === "undo") return json(response, 200, this.step(this.history, this.future));
    if (kind === "redo") return json(response, 200, this.step(this.future, this.history));
    if (kind === "least-sure") {
      const not = (url.searchParams.get("not") ?? "").split(",").map(Number);
      const best = this.photos.filter((photo) => !not.includes(photo.id)).map((photo) => [this.uncertainty(photo), photo.id]).filter(([value]) => value !== null).sort((a, b) => b[0] - a[0])[0];
      return json(response, 200, best ? { photo: best[1], uncertainty: best[0] } : { photo: null });
    }
    if (kind === "export") return this.exportRoute(response, id);
    throw new Refusal(404, "not found");
  }

  addPhoto(body, name) {
    let picture;
    try {
      picture = readPng(body);
    } catch {
      throw new Refusal(415, `\`${name}\` cannot be read`, "the mock reads PNG files of 8 bits");
    }
    const photo = { id: this.photos.length + 1, name, picture, paint: new Uint8Array(picture.width * picture.height), ready: false };
    this.photos.push(photo);
    this.queue.push(photo.id);
    this.tell("photos", { total: this.photos.length });
    return this.describe(photo);
  }

  async photoRoute(request, response, url, photo, what, side, body) {
    const { width, height, rgb } = photo.picture;
    if (what === "image") {
      photo.files ??= new Map();
      const factor = Math.min(1, side / Math.max(width, height));
      const [w, h] = [Math.round(width * factor), Math.round(height * factor)];
      if (!photo.files.has(w)) {
        const small = new Uint8Array(3 * w * h);
        for (let i = 0; i < w * h; i += 1) {
          const at = 3 * (Math.floor(Math.floor(i / w) / factor) * width + Math.floor((i % w) / factor));
          small.set(rgb.subarray(at, at + 3), 3 * i);
        }
        photo.files.set(w, writePng(w, h, small));
      }
      response.writeHead(200, { "Content-Type": "image/png", "Cache-Control": "private, max-age=31536000, immutable" }).end(photo.files.get(w));
    } else if (what === "labels") {
      if (!photo.ready) {
        this.queue = [photo.id, ...this.queue.filter((other) => other !== photo.id)];
        response.writeHead(202).end();
        return;
      }
      if (Number(url.searchParams.get("known")) === this.revision) {
        response.writeHead(304).end();
        return;
      }
      await pause(this.delay);
      const { w, h, ids, confidence } = this.label(photo, side);
      response.writeHead(200, { "Content-Type": "application/octet-stream", "Cache-Control": "no-store" }).end(Buffer.concat([this.head(w, h), ids, confidence]));
    } else if (what === "painted") {
      const factor = Math.min(1, side / Math.max(width, height));
      const [w, h] = [Math.max(1, Math.round(width * factor)), Math.max(1, Math.round(height * factor))];
      const ids = new Uint8Array(w * h).map((_, i) => photo.paint[Math.min(height - 1, Math.floor((Math.floor(i / w) + 0.5) / factor)) * width + Math.min(width - 1, Math.floor(((i % w) + 0.5) / factor))]);
      response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(Buffer.concat([this.head(w, h), ids]));
    } else if (what === "strokes") {
      await pause(this.delay);
      const painted = this.paint(photo, body);
      if (!url.searchParams.has("side") || !photo.ready) return json(response, 200, painted);
      const { w, h, ids, confidence } = this.label(photo, side);
      const headers = { "Content-Type": "application/octet-stream", "X-Stroke": JSON.stringify(painted) };
      response.writeHead(200, headers).end(Buffer.concat([this.head(w, h), ids, confidence]));
    } else if (what === "masks") {
      const mask = readPng(body);
      if (mask.width !== width || mask.height !== height) throw new Refusal(400, `the mask has ${mask.width} x ${mask.height} pixels, the photo ${width} x ${height}`, "save the mask at the size of the photo");
      this.change(photo);
      photo.paint = photo.paint.slice();
      let pixels = 0;
      for (let i = 0; i < width * height; i += 1) {
        if (mask.alpha[i] === 0 || mask.rgb[3 * i] + mask.rgb[3 * i + 1] + mask.rgb[3 * i + 2] === 0) continue;
        photo.paint[i] = Number(url.searchParams.get("class"));
        pixels += 1;
      }
      this.changed();
      json(response, 200, { revision: this.revision, pixels });
    } else throw new Refusal(404, "not found");
  }

  /** One of several photos' labels: id, status and length, then the bytes of a single answer. */
  labelPart(id, known, side) {
    const photo = this.photo(id);
    let [status, body] = [200, Buffer.alloc(0)];
    if (!photo.ready) {
      this.queue = [photo.id, ...this.queue.filter((other) => other !== photo.id)];
      status = 202;
    } else if (known === this.revision) status = 304;
    else {
      const { w, h, ids, confidence } = this.label(photo, side);
      body = Buffer.concat([this.head(w, h), ids, confidence]);
    }
    const head = Buffer.alloc(12);
    [id, status, body.length].forEach((value, place) => head.writeUInt32LE(value, 4 * place));
    return Buffer.concat([head, body]);
  }

  head(width, height) {
    const head = Buffer.from("PSL1\0\0\0\0\0\0\0\0", "latin1");
    head.writeUInt16LE(width, 4);
    head.writeUInt16LE(height, 6);
    head.writeUInt32LE(this.revision, 8);
    return head;
  }

  classRoute(method, id, body) {
    if (method === "POST") {
      this.change(null);
      const item = { id: this.nextClass, name: body.name, color: body.color ?? "#e6194b", hidden: false };
      this.nextClass += 1;
      this.classes.push(item);
      this.changed();
      return { id: item.id, revision: this.revision };
    }
    const item = this.classes.find((other) => other.id === Number(id));
    if (!item) throw new Refusal(404, `there is no class \`${id}\``);
    this.change(null);
    if (method === "DELETE") {
      this.classes = this.classes.filter((other) => other !== item);
      for (const photo of this.photos) photo.paint = photo.paint?.map((value) => (value === item.id ? 0 : value)) ?? null;
    } else {
      for (const key of ["name", "color", "hidden"]) if (key in body) item[key] = body[key];
    }
    this.changed();
    return { revision: this.revision };
  }

  exportRoute(response, name) {
    if (name === "commands") {
      return json(response, 200, { commands: ["protoseg register --class duck=strokes/duck -o my.pack", "protoseg predict --pack my.pack photos -o out"] });
    }
    if (this.classes.length === 0) throw new Refusal(409, "there is no class to export yet", "paint a class first");
    const file = { pack: "my.pack" }[name] ?? name;
    response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="${file}"` }).end(JSON.stringify(this.project()));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, fallback) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? fallback : Number(process.argv[at + 1]);
  };
  const mock = await startMock({ port: option("port", 8123), photos: option("photos", 40), delay: option("delay", 8), featureDelay: option("feature-delay", 25) });
  console.log(mock.start);
}
