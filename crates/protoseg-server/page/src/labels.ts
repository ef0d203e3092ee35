// Labels of the photo in hand and of the photos in view: asked for in order of need, kept, and compared with the ones before.

import { aborted, api } from "./api";
import { shrink } from "./colours";
import { emit, on, state } from "./store";
import { report } from "./status";
import type { LabelMap } from "./types";

/** Longer side of the labels of small photos. */
export const SMALL = 128;
const LARGE = 768;
const KEPT = 800;

interface Entry {
  now: LabelMap | null;
  /** Labels before the last stroke. */
  before: LabelMap | null;
  state: "new" | "ready" | "waiting" | "failed";
}

const blank = (): Entry => ({ now: null, before: null, state: "new" });

const small = new Map<number, Entry>();
const large = new Map<number, Entry>();
const paint = new Map<number, LabelMap>();
let inView: number[] = [];

// One connection stays for events, two for small labels, two for photos, one for what the hand does.
const LINES = 2;
/** Photos of one request: few enough that the first appear soon, enough that requests are few. */
const AT_ONCE = 8;

let waiting: number[] = [];
const underWay = new Map<AbortController, number[]>();
let held = false;

let handControl: AbortController | null = null;
let paintControl: AbortController | null = null;

export function smallEntry(id: number): Entry | undefined {
  return small.get(id);
}

export function largeEntry(id: number): Entry | undefined {
  return large.get(id);
}

export function paintOf(id: number): LabelMap | null {
  return paint.get(id) ?? null;
}

/** The side at which labels of the photo in hand are asked for. */
export function largeSide(id: number): number {
  const photo = state.byId.get(id);
  return photo ? Math.min(LARGE, Math.max(photo.width, photo.height)) : LARGE;
}

function keep(cache: Map<number, Entry>, id: number, answer: LabelMap | "waiting" | "same" | "failed", limit: number): void {
  const entry = cache.get(id) ?? blank();
  cache.delete(id);
  cache.set(id, entry);
  if (answer === "waiting" || answer === "failed") {
    entry.state = answer;
  } else if (answer === "same") {
    if (entry.now) entry.now.revision = Math.max(entry.now.revision, state.revision);
  } else {
    const old = entry.now;
    if (old && old.revision < state.changeRevision && answer.revision >= state.changeRevision) entry.before = old;
    entry.now = answer;
    entry.state = "ready";
  }
  // The oldest go first, but never what can be seen.
  for (const key of cache.keys()) {
    if (cache.size <= limit) break;
    if (key !== state.current && !inView.includes(key)) cache.delete(key);
  }
}

/** A new name or colour makes a new revision, but no new labels: what counts is the last change of labels. */
function fresh(entry: Entry | undefined): boolean {
  return (entry?.now?.revision ?? -1) >= state.changeRevision;
}

/** The photos in view, the most wanted first. Requests for others are dropped. */
export function show(ids: number[]): void {
  inView = ids;
  const wanted = new Set(ids);
  for (const [control, batch] of underWay) if (!batch.some((id) => wanted.has(id))) drop(control);
  const coming = new Set([...underWay.values()].flat());
  waiting = ids.filter((id) => {
    if (coming.has(id) || (id === state.current && large.get(id)?.now)) return false;
    const entry = small.get(id);
    return !fresh(entry) && entry?.state !== "waiting" && entry?.state !== "failed";
  });
  pump();
}

function drop(control: AbortController): void {
  underWay.delete(control);
  control.abort();
}

function pump(): void {
  while (!held && underWay.size < LINES && waiting.length > 0) void fetchSmall(waiting.splice(0, AT_ONCE));
}

async function fetchSmall(batch: number[]): Promise<void> {
  const control = new AbortController();
  underWay.set(control, batch);
  try {
    const known = batch.map((id) => ({ id, known: small.get(id)?.now?.revision ?? null }));
    const answers = await api.labelsOf(known, SMALL, control.signal);
    for (const id of batch) {
      keep(small, id, answers.get(id) ?? "failed", KEPT);
      emit("labels", id);
    }
    // Labels may have changed while these were on their way.
    underWay.delete(control);
    show(inView);
  } catch (error) {
    if (!aborted(error)) {
      report(error);
      setTimeout(() => show(inView), 3000);
    }
  } finally {
    underWay.delete(control);
    pump();
  }
}

/** Labels of a photo that came by themselves. */
export function take(id: number, map: LabelMap): void {
  keep(large, id, map, 6);
  keep(small, id, shrink(map, SMALL), KEPT);
  emit("labels", id);
}

/** Asks for labels of the photo in hand, before all others. Resolves when they are here, or when they cannot be. */
export async function refreshHand(): Promise<void> {
  const id = state.current;
  if (id === null) return;
  if (fresh(large.get(id))) return;
  handControl?.abort();
  const control = (handControl = new AbortController());
  try {
    const known = large.get(id)?.now?.revision ?? null;
    const answer = await api.labels(id, largeSide(id), known, control.signal);
    keep(large, id, answer, 6);
    const now = large.get(id)?.now;
    if (now && answer !== "waiting") keep(small, id, shrink(now, SMALL), KEPT);
    else if (answer === "waiting") keep(small, id, "waiting", KEPT);
    emit("labels", id);
  } catch (error) {
    if (aborted(error)) return;
    if (state.byId.get(id)?.features === "failed") {
      keep(large, id, "failed", 6);
      emit("labels", id);
    } else {
      report(error);
    }
  } finally {
    if (handControl === control) handControl = null;
  }
}

/** Asks for the paint of the photo in hand. */
export async function refreshPaint(): Promise<void> {
  const id = state.current;
  if (id === null) return;
  paintControl?.abort();
  const control = (paintControl = new AbortController());
  try {
    paint.set(id, await api.painted(id, largeSide(id), control.signal));
    for (const key of paint.keys()) if (paint.size > 6 && key !== id) paint.delete(key);
    emit("painted", id);
  } catch (error) {
    report(error);
  }
}

/** While a stroke is on its way, other labels would be out of date on arrival. */
export function hold(): void {
  held = true;
  for (const control of [...underWay.keys()]) drop(control);
  handControl?.abort();
}

export function release(): void {
  held = false;
  show(inView);
}

/** Forgets all labels: the server began anew. */
export function forget(): void {
  small.clear();
  large.clear();
  paint.clear();
}

/** Whether all photos in view that can have labels have those of `revision`. */
export function caughtUp(revision: number): boolean {
  return inView.every((id) => {
    const entry = small.get(id);
    return entry?.state === "waiting" || entry?.state === "failed" || (entry?.now?.revision ?? -1) >= revision;
  });
}

export function viewSize(): number {
  return inView.filter((id) => small.get(id)?.state === "ready").length;
}

// Events can be missed while the line is down; the list of photos tells, too, what is ready.
on("photos", () => {
  for (const [id, entry] of small) {
    if (entry.state === "waiting" && state.byId.get(id)?.features === "ready") emit("photo", id);
  }
});

on("photo", (id) => {
  const entry = small.get(id);
  if (entry?.state === "waiting") entry.state = "new";
  if (id === state.current) {
    const held = large.get(id);
    if (held?.state === "waiting") held.state = "new";
    void refreshHand();
  } else if (inView.includes(id)) {
    show(inView);
  }
});
