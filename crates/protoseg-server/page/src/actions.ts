// What a person can do, as functions. Changes go to the server one after another, in the order they were made.

import { api } from "./api";
import { nextColour } from "./colours";
import * as labels from "./labels";
import { maskToSend } from "./mask";
import { strokeAnswered, strokeEnded } from "./measure";
import { holdPictures, releasePictures } from "./pictures";
import { notice, problem, report, reportLost, say, whileSaving } from "./status";
import { classes, classOf, currentPhoto, emit, paintedClasses, setSetting, showRevisions, state } from "./store";
import type { ClassInfo, LabelMap, Photo, Stroke, View } from "./types";
import { words } from "./words";

const PAGE = 200;
export const views: View[] = ["overlay", "confidence", "changed", "strokes", "photo"];

let line: Promise<unknown> = Promise.resolve();
let inLineSoFar = 0;

let dropLast: () => void = () => {};

/** Takes away the notice that offers to undo the last change: after another change it would undo that one. */
export function dropOffer(): void {
  dropLast();
}

/** Puts a change in line. A failure is shown, and the changes after it still go. */
function inLine(work: () => Promise<void>): Promise<void> {
  inLineSoFar += 1;
  dropOffer();
  const next = line.then(() => whileSaving(work)).catch(reportLost);
  line = next;
  return next;
}

export async function loadProject(): Promise<void> {
  const project = await api.project();
  const before = state.project;
  state.project = project;
  if (project.revision < state.revision && state.saving === 0) {
    labels.forget();
    state.changeRevision = project.revision;
    state.revision = project.revision;
  } else {
    state.revision = Math.max(state.revision, project.revision);
  }
  if (!classOf(state.classId)) {
    state.classId = classes().find((item) => !item.base)?.id ?? null;
    emit("settings");
  }
  emit("project");
  const look = (list: ClassInfo[] = []) => list.map((item) => `${item.id}${item.color}${item.hidden}`).join();
  if (look(before?.classes) !== look(project.classes)) emit("colours");
}

let photosAsked = 0;

export async function loadPhotos(): Promise<void> {
  const asked = (photosAsked += 1);
  const all: Photo[] = [];
  for (;;) {
    const page = await api.photos(all.length, PAGE);
    if (asked !== photosAsked) return;
    all.push(...page.photos);
    if (all.length >= page.total || page.photos.length === 0) break;
    if (!state.loaded) usePhotos(all);
  }
  state.loaded = true;
  usePhotos(all);
}

function usePhotos(all: Photo[]): void {
  state.photos = all.slice();
  state.byId = new Map(all.map((photo) => [photo.id, photo]));
  emit("photos");
}

let later = 0;

/** The project's numbers are fetched once the hand rests. */
export function loadProjectSoon(delay = 120): void {
  clearTimeout(later);
  later = window.setTimeout(() => void loadProject().catch(report), delay);
}

let photosLater = 0;

export function loadPhotosSoon(delay = 1500): void {
  clearTimeout(photosLater);
  photosLater = window.setTimeout(() => void loadPhotos().catch(report), delay);
}

/** Takes note of a new revision and brings everything in view up to date, the photo in hand first. */
export async function follow(revision: number, labelsChange: boolean, own?: { photo: number; labels: LabelMap }): Promise<void> {
  state.revision = Math.max(state.revision, revision);
  if (labelsChange) state.changeRevision = Math.max(state.changeRevision, revision);
  if (own) labels.take(own.photo, own.labels);
  showRevisions();
  // With more strokes on their way, only the last one's labels are worth fetching.
  if (pending.some((item) => item.revision === null)) return;
  await labels.refreshHand();
  labels.release();
  releasePictures();
  await labels.refreshPaint();
  loadProjectSoon();
}

export function openPhoto(id: number): void {
  if (!state.byId.has(id)) return;
  if (state.current !== id) {
    state.current = id;
    history.replaceState(null, "", `#photo-${id}`);
    emit("current");
    void labels.refreshHand();
    void labels.refreshPaint();
  }
}

export interface Pending {
  photo: number;
  stroke: Stroke;
  /** Set when the server has painted it. */
  revision: number | null;
}

/** Strokes that are on their way, or painted but not yet fetched as paint. */
export const pending: Pending[] = [];

export function paintStroke(photo: number, stroke: Stroke): void {
  const own: Pending = { photo, stroke, revision: null };
  pending.push(own);
  const ended = strokeEnded();
  labels.hold();
  holdPictures();
  void inLine(async () => {
    try {
      const { answer, labels: seen } = await api.stroke(photo, stroke, labels.largeSide(photo));
      own.revision = answer.revision;
      shownLeastSure.clear();
      strokeAnswered(ended, answer.revision, photo);
      sayStroke(stroke, answer.pixels);
      await follow(answer.revision, true, seen ? { photo, labels: seen } : undefined);
    } catch (error) {
      labels.release();
      releasePictures();
      throw error;
    } finally {
      pending.splice(pending.indexOf(own), 1);
      emit("painted", photo);
    }
  });
}

function sayStroke(stroke: Stroke, pixels: number): void {
  if (stroke.mode === "not") say(words.stage.notDone(pixels));
  else if (stroke.mode === "erase") say(words.stage.eraseDone(pixels));
  else say(words.stage.strokeDone(classOf(stroke.class)?.name ?? "", pixels));
}

export async function loadMask(file: File): Promise<void> {
  const photo = currentPhoto();
  const item = classOf(state.classId);
  if (!photo) return;
  if (!item) {
    problem(words.stage.needClass, words.stage.needClassHint);
    return;
  }
  const mask = await maskToSend(file, photo, item.name);
  if (!mask) return;
  labels.hold();
  void inLine(async () => {
    try {
      const answer = await api.mask(photo.id, item.id, mask);
      notice(words.tools.maskDone(item.name, answer.pixels));
      await follow(answer.revision, true);
    } catch (error) {
      labels.release();
      throw error;
    }
  });
}

export function undo(): void {
  step("undo");
}

export function redo(): void {
  step("redo");
}

function step(way: "undo" | "redo"): void {
  const able = way === "undo" ? state.project?.can_undo : state.project?.can_redo;
  if (!able && state.saving === 0) return;
  labels.hold();
  void inLine(async () => {
    try {
      const answer = await api[way]();
      const other = answer.photo !== null && answer.photo !== state.current ? state.byId.get(answer.photo) : undefined;
      await loadProject();
      if (other) {
        const text = way === "undo" ? words.undoneIn(other.name) : words.redoneIn(other.name);
        notice(text, { label: words.show, run: () => openPhoto(other.id) });
      } else {
        say(way === "undo" ? words.undone : words.redone);
      }
      await follow(answer.revision, true);
    } catch (error) {
      labels.release();
      throw error;
    }
  });
}

/** Resolves to whether there is a new class. */
export async function addClass(name: string): Promise<boolean> {
  const trimmed = name.trim();
  if (trimmed === "") return false;
  if (classes().some((item) => item.name.toLowerCase() === trimmed.toLowerCase())) {
    problem(words.classes.exists(trimmed), words.classes.existsHint);
    return false;
  }
  let added = false;
  await inLine(async () => {
    const colour = nextColour(classes().map((item) => item.color));
    const answer = await api.addClass(trimmed, colour);
    added = true;
    state.classId = answer.id;
    await loadProject();
    emit("settings");
    say(words.classes.added(trimmed));
    await follow(answer.revision, false);
  });
  return added;
}

/** The change is shown at once, and taken back if the server refuses it. */
export function changeClass(id: number, change: Partial<Pick<ClassInfo, "name" | "color" | "hidden">>): void {
  const item = classOf(id);
  if (!item) return;
  const before = { name: item.name, color: item.color, hidden: item.hidden };
  Object.assign(item, change);
  emit("project");
  emit("colours");
  void inLine(async () => {
    try {
      const answer = await api.changeClass(id, change);
      if (answer.revision !== undefined) await follow(answer.revision, false);
      loadProjectSoon();
    } catch (error) {
      Object.assign(item, before);
      emit("project");
      emit("colours");
      throw error;
    }
  });
}

export function removeClass(id: number): void {
  const item = classOf(id);
  if (!item) return;
  labels.hold();
  const place = inLineSoFar + 1;
  void inLine(async () => {
    try {
      const answer = await api.removeClass(id);
      await loadProject();
      const isLast = place === inLineSoFar;
      dropLast = notice(words.classes.removed(item.name), isLast ? { label: words.undo, run: undo } : undefined);
      await follow(answer.revision ?? state.revision, true);
    } catch (error) {
      labels.release();
      throw error;
    }
  });
}

const shownLeastSure = new Set<number>();

/** Opens the photo where a stroke would help most. Asked again, it goes on to the next one. */
export async function leastSure(): Promise<void> {
  try {
    if (state.current !== null) shownLeastSure.add(state.current);
    const answer = await api.leastSure([...shownLeastSure].slice(-100));
    const photo = answer.photo === null ? undefined : state.byId.get(answer.photo);
    if (!photo) {
      shownLeastSure.clear();
      notice(`${words.leastSureNone}. ${words.leastSureNoneHint}`);
      return;
    }
    openPhoto(photo.id);
    notice(words.leastSureFound(photo.name, answer.uncertainty ?? 0));
  } catch (error) {
    report(error);
  }
}

export function nextView(step = 1): void {
  const at = views.indexOf(state.view);
  setSetting("view", views[(at + step + views.length) % views.length] ?? "overlay");
  say(words.views[`${state.view}Long`]);
}

export function isPainted(photo: Photo): boolean {
  return photo.painted.length > 0 || paintedClasses(photo.id).length > 0;
}
