// The server's addresses as functions. Every failure becomes a `Failure`: one sentence and what to do.

import type { ClassInfo, LabelMap, Photo, Project, Stroke, StrokeAnswer } from "./types";
import { words } from "./words";

export class Failure extends Error {
  constructor(
    message: string,
    readonly hint: string | null,
    readonly status: number,
  ) {
    super(message);
  }
}

export function aborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (let attempt = 0; ; attempt += 1) {
    let response: Response;
    try {
      response = await fetch(path, { credentials: "same-origin", ...init });
    } catch (error) {
      if (aborted(error)) throw error;
      throw new Failure(words.errors.network, words.errors.networkHint, 0);
    }
    if (response.ok || response.status === 304) return response;
    if (response.status === 503 && attempt < 4) {
      const wait = Number(response.headers.get("Retry-After")) || 1;
      await pause(Math.min(wait, 5) * 1000 * (0.5 + Math.random() / 2));
      init.signal?.throwIfAborted();
      continue;
    }
    throw await failure(response);
  }
}

async function failure(response: Response): Promise<Failure> {
  if (response.status === 401) return new Failure(words.errors.session, words.errors.sessionHint, 401);
  let error = response.status === 503 ? words.errors.busy : words.errors.unknown;
  let hint: string | null = response.status === 503 ? words.errors.busyHint : null;
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null) {
      if ("error" in body && typeof body.error === "string") error = body.error;
      if ("hint" in body && typeof body.hint === "string") hint = body.hint;
    }
  } catch {
    // The body is not JSON: the sentence above stays.
  }
  return new Failure(sentence(error), hint && sentence(hint), response.status);
}

/** The project's errors begin in lower case and have no full stop; on a page they are sentences. */
function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { cache: "no-store", ...(signal ? { signal } : {}) });
  return (await response.json()) as T;
}

async function send<T>(method: string, path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  const response = await request(path, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  return (text === "" ? {} : JSON.parse(text)) as T;
}

/** Reads "PSL1": width, height, revision, class ids, and confidences if there are any. */
export function parseLabels(buffer: ArrayBuffer): LabelMap {
  const view = new DataView(buffer);
  if (buffer.byteLength < 12 || view.getUint32(0) !== 0x50534c31) {
    throw new Failure(words.errors.format, words.errors.formatHint, 200);
  }
  const width = view.getUint16(4, true);
  const height = view.getUint16(6, true);
  const size = width * height;
  if (buffer.byteLength < 12 + size) throw new Failure(words.errors.format, words.errors.formatHint, 200);
  return {
    width,
    height,
    revision: view.getUint32(8, true),
    ids: new Uint8Array(buffer, 12, size),
    confidence: buffer.byteLength >= 12 + 2 * size ? new Uint8Array(buffer, 12 + size, size) : null,
  };
}

type Changed = { revision: number };

export const api = {
  project: () => get<Project>("/api/project"),
  photos: (offset: number, limit: number) => get<{ total: number; photos: Photo[] }>(`/api/photos?offset=${offset}&limit=${limit}`),

  async addPhoto(file: File): Promise<Photo> {
    const type = file.type.startsWith("image/") ? file.type : "application/octet-stream";
    const headers = { "Content-Type": type, "X-Name": encodeURIComponent(file.name) };
    return (await request("/api/photos", { method: "POST", headers, body: file })).json() as Promise<Photo>;
  },

  async image(id: number, side: number | null, signal: AbortSignal): Promise<ImageBitmap> {
    const response = await request(`/api/photos/${id}/image${side === null ? "" : `?side=${side}`}`, { signal });
    return createImageBitmap(await response.blob());
  },

  /** `"waiting"` while the photo has not been looked at, `"same"` if `known` is still the newest revision. */
  async labels(id: number, side: number, known: number | null, signal: AbortSignal): Promise<LabelMap | "waiting" | "same"> {
    const query = known === null ? "" : `&known=${known}`;
    const response = await request(`/api/photos/${id}/labels?side=${side}${query}`, { signal, cache: "no-store" });
    if (response.status === 202) return "waiting";
    if (response.status === 304) return "same";
    return parseLabels(await response.arrayBuffer());
  },

  /** Labels of several photos in one answer. A photo that fails has none: its own request says why. */
  async labelsOf(photos: { id: number; known: number | null }[], side: number, signal: AbortSignal): Promise<Map<number, LabelMap | "waiting" | "same">> {
    const list = photos.map(({ id, known }) => (known === null ? `${id}` : `${id}@${known}`)).join(",");
    const response = await request(`/api/labels?side=${side}&photos=${list}`, { signal, cache: "no-store" });
    const buffer = await response.arrayBuffer();
    const view = new DataView(buffer);
    const found = new Map<number, LabelMap | "waiting" | "same">();
    for (let at = 0; at + 12 <= buffer.byteLength; ) {
      const [id, status, length] = [view.getUint32(at, true), view.getUint32(at + 4, true), view.getUint32(at + 8, true)];
      if (status === 200) found.set(id, parseLabels(buffer.slice(at + 12, at + 12 + length)));
      else if (status === 202) found.set(id, "waiting");
      else if (status === 304) found.set(id, "same");
      at += 12 + length;
    }
    return found;
  },

  async painted(id: number, side: number, signal: AbortSignal): Promise<LabelMap> {
    const response = await request(`/api/photos/${id}/painted?side=${side}`, { signal, cache: "no-store" });
    return parseLabels(await response.arrayBuffer());
  },

  /** Paints a stroke. The photo's new labels come with the answer, if the photo was looked at. */
  async stroke(id: number, stroke: Stroke, side: number): Promise<{ answer: StrokeAnswer; labels: LabelMap | null }> {
    const headers = { "Content-Type": "application/json" };
    const response = await request(`/api/photos/${id}/strokes?side=${side}`, { method: "POST", headers, body: JSON.stringify(stroke) });
    const said = response.headers.get("X-Stroke");
    if (said === null) return { answer: (await response.json()) as StrokeAnswer, labels: null };
    return { answer: JSON.parse(said) as StrokeAnswer, labels: parseLabels(await response.arrayBuffer()) };
  },

  async mask(id: number, classId: number, file: Blob): Promise<StrokeAnswer> {
    const headers = { "Content-Type": "image/png" };
    const response = await request(`/api/photos/${id}/masks?class=${classId}`, { method: "POST", headers, body: file });
    return response.json() as Promise<StrokeAnswer>;
  },

  addClass: (name: string, color: string) => send<{ id: number } & Changed>("POST", "/api/classes", { name, color }),
  changeClass: (id: number, change: Partial<Pick<ClassInfo, "name" | "color" | "hidden">>) =>
    send<Partial<Changed>>("PATCH", `/api/classes/${id}`, change),
  removeClass: (id: number) => send<Partial<Changed>>("DELETE", `/api/classes/${id}`, {}),

  undo: () => send<Changed & { photo: number | null }>("POST", "/api/undo", {}),
  redo: () => send<Changed & { photo: number | null }>("POST", "/api/redo", {}),
  leastSure: (not: number[]) => get<{ photo: number | null; uncertainty?: number }>(`/api/least-sure?not=${not.join(",")}`),
  commands: () => get<{ commands: string[] }>("/api/export/commands"),

  async download(name: string): Promise<{ blob: Blob; name: string }> {
    const response = await request(`/api/export/${name}`, { cache: "no-store" });
    const disposition = response.headers.get("Content-Disposition") ?? "";
    const given = /filename="?([^";]+)"?/.exec(disposition)?.[1];
    return { blob: await response.blob(), name: given ?? name };
  },
};
