// Keyboard shortcuts of the whole page. Keys on the photo itself are in tools.ts.

import { leastSure, nextView, openPhoto, redo, undo } from "./actions";
import type { Stage } from "./canvas";
import type { ExportMenu } from "./export";
import type { Gallery } from "./gallery";
import type { Help } from "./help";
import type { Layout } from "./layout";
import { say } from "./status";
import { classes, setSetting, state } from "./store";
import type { Mode, Tool } from "./types";
import type { Tools } from "./tools";
import { words } from "./words";

interface Parts {
  stage: Stage;
  tools: Tools;
  gallery: Gallery;
  help: Help;
  menu: ExportMenu;
  layout: Layout;
  focusNewClass: () => void;
}

const toolKeys: Record<string, Tool> = { b: "brush", p: "polygon", r: "rectangle", m: "magic", h: "hand" };
const modeKeys: Record<string, Mode> = { a: "add", n: "not", e: "erase" };

export function resizeBrush(factor: number): void {
  setSetting("brush", Math.min(0.2, Math.max(0.002, state.brush * factor)));
}

function writing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.tagName) return false;
  if (element.tagName === "INPUT") return !["range", "checkbox", "color", "file"].includes((element as HTMLInputElement).type);
  return element.tagName === "TEXTAREA" || element.tagName === "SELECT";
}

export function bindKeys(parts: Parts): void {
  document.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && !event.altKey) {
      if (writing(event.target)) return;
      if (key === "z") (event.shiftKey ? redo : undo)();
      else if (key === "y") redo();
      else return;
      event.preventDefault();
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (key === "escape") {
      if (parts.menu.close() || parts.tools.cancel() || parts.layout.narrow()) event.preventDefault();
      return;
    }
    if (document.querySelector("dialog[open]") || writing(event.target) || !parts.help.single) return;
    if (single(event, key, parts)) event.preventDefault();
  });
}

/** Carries out a shortcut of one key. Says whether it was one. */
function single(event: KeyboardEvent, key: string, parts: Parts): boolean {
  const { stage, tools, gallery } = parts;
  const tool = toolKeys[key];
  const mode = modeKeys[key];
  const item = /^[1-9]$/.test(key) ? classes()[Number(key) - 1] : undefined;
  if (tool) {
    setSetting("tool", tool);
    say(words.tools[tool]);
  } else if (mode) {
    setSetting("mode", mode);
    say(words.modes[`${mode}Long`]);
  } else if (item) {
    setSetting("classId", item.id);
    say(item.name);
  } else if (key === "[") resizeBrush(1 / 1.2);
  else if (key === "]") resizeBrush(1.2);
  else if (key === "c") parts.focusNewClass();
  else if (key === "v") nextView(event.shiftKey ? -1 : 1);
  else if (key === "o") setSetting("view", state.view === "photo" ? "overlay" : "photo");
  else if (key === "," || key === ".") {
    const next = gallery.neighbour(key === "." ? 1 : -1);
    if (next !== null) openPhoto(next);
  } else if (key === "l") void leastSure();
  else if (key === "g") parts.layout.toggleWide();
  else if (key === "+" || key === "=") stage.zoom(1.25);
  else if (key === "-") stage.zoom(0.8);
  else if (key === "0") stage.fit();
  else if (key === "?") parts.help.open();
  else if (event.code === "Space" && (document.activeElement === document.body || document.activeElement === stage.canvas)) tools.setSpace(true);
  else return false;
  return true;
}
