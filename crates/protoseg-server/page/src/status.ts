// What the page says: notices that go away, errors that stay until read, a line for screen readers, and the state of saving.

import { aborted, Failure } from "./api";
import { h, icon, iconButton, setText } from "./dom";
import { emit, on, state } from "./store";
import { words } from "./words";

const polite = h("div", { class: "only-read", role: "status", "aria-live": "polite", id: "live" });
const toasts = h("div", { class: "toasts" });
const alerts = h("div", { class: "toasts alerts", role: "alert" });
const noticeBox = h("div", { class: "notices" }, toasts, alerts);

const savedDot = h("span", { class: "saved-icon" }, icon("check"));
const savedText = h("span", { class: "saved-text" });
const saved = h("div", { class: "saved", id: "saved", title: words.savedLong }, savedDot, savedText);

const bar = h("progress", { max: 1, value: 0, "aria-label": words.features(0, 0) });
const barText = h("span", { class: "progress-text" });
const barShort = h("span", { class: "progress-short" });
const progress = h("div", { class: "progress", id: "features", hidden: true }, bar, barText, barShort);

export const statusElements = { polite, notices: noticeBox, saved, progress };

let spoken = 0;

/** Says something to screen readers alone. */
export function say(text: string): void {
  // The same sentence twice is read twice only if the text differs.
  spoken += 1;
  polite.textContent = spoken % 2 === 0 ? text : `${text}\u00a0`;
}

export interface Action {
  label: string;
  run: () => void;
}

/** A notice that goes away by itself, or when the function that is returned is called. */
export function notice(text: string, action?: Action): () => void {
  say(text);
  const toast = h(
    "div",
    { class: "toast" },
    h("span", {}, text),
    action ? h("button", { type: "button", class: "link", onclick: () => (toast.remove(), action.run()) }, action.label) : null,
  );
  while (toasts.childElementCount >= 2) toasts.firstElementChild?.remove();
  toasts.append(toast);
  setTimeout(() => toast.remove(), action || text.length > 80 ? 8000 : 4000);
  return () => toast.remove();
}

function dropProblem(text: string): void {
  for (const old of [...alerts.children]) if (old.getAttribute("data-text") === text) old.remove();
}

/** One sentence, and what to do. Stays until it is closed. */
export function problem(text: string, hint: string | null = null): void {
  dropProblem(text);
  while (alerts.childElementCount >= 3) alerts.firstElementChild?.remove();
  const toast = h(
    "div",
    { class: "toast error", "data-text": text },
    icon("warning"),
    h("div", { class: "toast-body" }, h("strong", {}, text), hint ? h("span", {}, hint) : null),
    iconButton("close", words.close, () => toast.remove()),
  );
  alerts.append(toast);
  setTimeout(() => toast.remove(), 20000);
}

/** Shows any failure. Requests that were called off are none. */
export function report(error: unknown): void {
  if (aborted(error)) return;
  if (error instanceof Failure) {
    if (error.status === 0) {
      setConnected(false);
      return;
    }
    problem(error.message, error.hint);
  } else {
    console.error(error);
    problem(words.errors.unknown, error instanceof Error ? error.message : null);
  }
}

/** Shows why a change failed. One that reached nobody is gone, which a person has to know. */
export function reportLost(error: unknown): void {
  report(error);
  if (!(error instanceof Failure) || error.status !== 0) return;
  dropProblem(words.errors.network);
  problem(words.errors.lost, words.errors.lostHint);
}

export function setConnected(connected: boolean): void {
  if (state.connected === connected) return;
  state.connected = connected;
  if (connected) {
    dropProblem(words.errors.network);
    notice(words.online);
  } else {
    problem(words.errors.network, words.errors.networkHint);
  }
  emit("connection");
}

/** Counts a change as on its way until the server has answered, that is, has saved it. */
export async function whileSaving<T>(work: () => Promise<T>): Promise<T> {
  state.saving += 1;
  emit("saving");
  try {
    return await work();
  } finally {
    state.saving -= 1;
    emit("saving");
  }
}

let slow = 0;

function drawSaved(): void {
  const kind = !state.connected ? "offline" : state.saving > 0 ? "saving" : "saved";
  saved.dataset["kind"] = kind;
  setText(savedText, words[kind]);
  saved.title = kind === "offline" ? words.offlineLong : words.savedLong;
}

// Most changes are saved before the eye could follow: only slow ones are shown as under way.
on("saving", () => {
  clearTimeout(slow);
  if (state.saving > 0) slow = window.setTimeout(drawSaved, 150);
  else drawSaved();
});
on("connection", drawSaved);
drawSaved();

on("project", drawProgress);

export function drawProgress(): void {
  const features = state.project?.features;
  if (!features) return;
  const running = features.done + features.failed < features.total;
  progress.hidden = !running && features.failed === 0;
  bar.hidden = !running;
  bar.max = Math.max(1, features.total);
  bar.value = features.done + features.failed;
  bar.setAttribute("aria-label", words.features(features.done, features.total));
  const text = running ? words.features(features.done, features.total) : words.featuresFailed(features.failed);
  progress.title = text;
  setText(barText, text);
  setText(barShort, running ? words.featuresShort(features.done, features.total) : text);
}
