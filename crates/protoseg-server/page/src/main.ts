// Puts the page together.

import { leastSure, loadPhotos, loadProject, openPhoto, redo, undo, views } from "./actions";
import { Failure } from "./api";
import { CheckPanel } from "./checks";
import { ClassPanel } from "./classes";
import { Choices, h, icon, iconButton, setText } from "./dom";
import { listen } from "./events";
import { ExportMenu } from "./export";
import { Gallery } from "./gallery";
import { Help } from "./help";
import { bindKeys } from "./keys";
import { Layout } from "./layout";
import { PaintPanel } from "./paint";
import { problem, report, statusElements } from "./status";
import { on, setSetting, showRevisions, state } from "./store";
import type { View } from "./types";
import { acceptDrops, uploadElements } from "./upload";
import { words } from "./words";

function build(): void {
  document.documentElement.lang = words.code;
  const classPanel = new ClassPanel();
  const checkPanel = new CheckPanel();
  const menu = new ExportMenu();
  const help = new Help();
  const gallery = new Gallery(() => layout.toggleWide());
  const focusNewClass = () => {
    layout.show("classes");
    layout.narrow();
    classPanel.focusNew();
  };
  const paint = new PaintPanel(gallery, focusNewClass);

  const undoButton = iconButton("undo", `${words.undo} (Ctrl+Z)`, undo);
  const redoButton = iconButton("redo", `${words.redo} (Ctrl+Shift+Z)`, redo);
  undoButton.id = "undo";
  redoButton.id = "redo";
  const name = h("h1", { class: "project-name" }, words.title);
  const viewChoices = new Choices<View>(
    words.views.label,
    views.map((value) => ({ value, label: words.views[value], tip: `${words.views[`${value}Long`]} (V)` })),
    (value) => setSetting("view", value),
    "views",
  );
  const strength = h("input", {
    type: "range",
    min: 0.1,
    max: 1,
    step: 0.05,
    value: state.strength,
    class: "small-range strength",
    "aria-label": words.views.strength,
    title: words.views.strength,
    oninput: () => setSetting("strength", Number(strength.value)),
  });
  const bar = h(
    "header",
    { class: "bar" },
    h("img", { src: "/assets/icon.svg", alt: "", class: "logo", width: 24, height: 24 }),
    name,
    h("div", { class: "bar-group" }, undoButton, redoButton),
    viewChoices.element,
    strength,
    h("span", { class: "grow" }),
    statusElements.progress,
    statusElements.saved,
    h(
      "button",
      { type: "button", class: "bar-button", id: "least-sure", title: words.leastSureLong, "aria-label": words.leastSure, onclick: () => void leastSure().then(() => layout.show("paint")) },
      icon("target"),
      h("span", { class: "bar-text" }, words.leastSure),
    ),
    menu.element,
    iconButton("help", words.help, () => help.open()),
  );
  const side = h("aside", { class: "side", id: "panel-classes", "aria-label": words.tabs.classes }, classPanel.element, checkPanel.element);
  const layout = new Layout(bar, gallery.element, paint.element, side);
  gallery.opened = () => {
    layout.show("paint");
    layout.narrow();
  };
  checkPanel.opened = gallery.opened;
  classPanel.added = () => {
    if (state.photos.length === 0) return;
    layout.show("paint");
    paint.stage.canvas.focus();
  };

  const skip = h("a", { href: "#stage", class: "skip", onclick: (event: Event) => (event.preventDefault(), paint.stage.canvas.focus()) }, words.skipToPhoto);
  document.body.append(skip, layout.root, statusElements.polite, statusElements.notices, help.element, ...uploadElements);

  const drawBar = () => {
    undoButton.disabled = !state.project?.can_undo;
    redoButton.disabled = !state.project?.can_redo;
    setText(name, state.project?.name || words.title);
    document.title = state.project?.name ? `${state.project.name} – ${words.title}` : words.title;
    showRevisions();
  };
  const drawSettings = () => {
    viewChoices.set(state.view);
    strength.disabled = state.view !== "overlay";
  };
  on("project", drawBar);
  on("settings", drawSettings);
  drawBar();
  drawSettings();
  acceptDrops();
  bindKeys({ stage: paint.stage, tools: paint.tools, gallery, help, menu, layout, focusNewClass });
}

const namedPhoto = () => Number(/^#photo-(\d+)$/.exec(location.hash)?.[1]);

/** Opens the photo named in the address, or the first one. */
function openFirst(): void {
  if (state.current === null && state.photos.length > 0) openPhoto(state.byId.has(namedPhoto()) ? namedPhoto() : state.photos[0]!.id);
}

async function start(): Promise<void> {
  build();
  on("photos", () => {
    if (state.loaded || !location.hash.startsWith("#photo-")) openFirst();
  });
  window.addEventListener("hashchange", () => openPhoto(namedPhoto()));
  try {
    await loadProject();
    state.changeRevision = state.revision;
    await loadPhotos();
  } catch (error) {
    if (error instanceof Failure && error.status === 401) {
      problem(error.message, error.hint);
      return;
    }
    report(error);
  }
  listen();
}

void start();
