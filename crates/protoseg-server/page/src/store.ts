// What the page knows, and who wants to hear of changes.

import type { ClassInfo, Mode, Photo, Project, Tool, View } from "./types";
import { readChoice, writeChoice } from "./choices";

interface Topics {
  /** Classes, checks, undo state or names are new. */
  project: void;
  /** The list of photos is new. */
  photos: void;
  /** One photo's features are ready, or it failed. */
  photo: number;
  /** Another photo is in hand. */
  current: void;
  /** Tool, mode, brush, class or view was changed. */
  settings: void;
  /** Colours or hidden classes were changed: draw again. */
  colours: void;
  /** New labels of a photo are here, or it turned out to wait. */
  labels: number;
  /** New paint of the photo in hand is here. */
  painted: number;
  /** How many changes are on their way. */
  saving: void;
  /** The connection is lost or back. */
  connection: void;
}

type Listener<T> = (detail: T) => void;

const listeners: { [K in keyof Topics]?: Listener<Topics[K]>[] } = {};

export function on<K extends keyof Topics>(topic: K, listener: Listener<Topics[K]>): void {
  ((listeners[topic] ??= []) as Listener<Topics[K]>[]).push(listener);
}

export function emit<K extends keyof Topics>(topic: K, ...detail: Topics[K] extends void ? [] : [Topics[K]]): void {
  for (const listener of (listeners[topic] ?? []) as Listener<unknown>[]) listener(detail[0]);
}

export const state = {
  project: null as Project | null,
  photos: [] as Photo[],
  byId: new Map<number, Photo>(),
  loaded: false,
  current: null as number | null,
  classId: null as number | null,
  tool: readChoice<Tool>("tool", "brush"),
  mode: "add" as Mode,
  view: readChoice<View>("view", "overlay"),
  /** Radius of the brush as a share of the photo's longer side. */
  brush: Number(readChoice("brush", "0.02")),
  strength: Number(readChoice("strength", "0.55")),
  revision: 0,
  /** The revision that the last change of labels made: a stroke, a mask, undo, redo or a removed class. */
  changeRevision: 0,
  saving: 0,
  connected: true,
};

/** Writes the revisions where tests, and people with a question, can read them. */
export function showRevisions(): void {
  document.documentElement.dataset["revision"] = String(state.revision);
  document.documentElement.dataset["changed"] = String(state.changeRevision);
}

export function classes(): ClassInfo[] {
  return state.project?.classes ?? [];
}

export function classOf(id: number | null): ClassInfo | undefined {
  return classes().find((item) => item.id === id);
}

export function currentPhoto(): Photo | undefined {
  return state.current === null ? undefined : state.byId.get(state.current);
}

export function paintedClasses(photo: number): ClassInfo[] {
  return classes().filter((item) => item.painted_photos.includes(photo));
}

export function setSetting<K extends "tool" | "mode" | "view" | "brush" | "strength" | "classId">(key: K, value: (typeof state)[K]): void {
  if (state[key] === value) return;
  state[key] = value;
  if (key !== "mode" && key !== "classId") writeChoice(key, String(value));
  emit("settings");
  if (key === "view" || key === "strength") emit("colours");
}
