// How long a person waits, measured where it is felt: from the end of a stroke to the frame that shows its labels.
// Tests and the curious read it with performance.getEntriesByName("stroke-to-overlay") and ("stroke-to-visible").

import * as labels from "./labels";
import { on, state } from "./store";

interface Wait {
  start: number;
  revision: number;
  photo: number;
  overlay: boolean;
  visible: boolean;
}

const waits: Wait[] = [];

export function strokeEnded(): number {
  performance.mark("stroke-end");
  return performance.now();
}

export function strokeAnswered(start: number, revision: number, photo: number): void {
  performance.measure("stroke-to-answer", { start, end: performance.now() });
  waits.push({ start, revision, photo, overlay: false, visible: false });
}

/** Called when the photo in hand has been drawn with labels of `revision`. */
export function overlayDrawn(photo: number, revision: number): void {
  const end = performance.now();
  for (const wait of waits) {
    if (wait.overlay || wait.photo !== photo || revision < wait.revision) continue;
    wait.overlay = true;
    performance.measure("stroke-to-overlay", { start: wait.start, end, detail: { photo, revision } });
  }
}

/** Called when the small photos have been drawn. */
export function galleryDrawn(): void {
  const end = performance.now();
  for (const wait of [...waits]) {
    if (!wait.visible && labels.caughtUp(wait.revision)) {
      wait.visible = true;
      performance.measure("stroke-to-visible", { start: wait.start, end, detail: { photos: labels.viewSize() } });
    }
    // A wait for another photo than the one in hand never ends.
    if (wait.visible && (wait.overlay || wait.photo !== state.current)) waits.splice(waits.indexOf(wait), 1);
  }
}

on("current", () => {
  for (const wait of waits) if (wait.photo !== state.current) wait.overlay = true;
});
