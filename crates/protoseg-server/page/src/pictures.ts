// Small photos: fetched nearest to the view first, dropped when scrolled away, and kept for as long as there is room.

import { aborted, api, Failure } from "./api";
import { Queue } from "./queue";
import { report } from "./status";

const KEPT = 500;

const kept = new Map<string, ImageBitmap>();
const broken = new Set<number>();
const queue = new Queue(2, report);
let ready: (id: number) => void = () => {};
let side = 192;

export function onPicture(listener: (id: number) => void): void {
  ready = listener;
}

export function picture(id: number): ImageBitmap | undefined {
  return kept.get(`${id}@${side}`) ?? kept.get(`${id}@192`);
}

/** The photos in view and around it, the most wanted first. */
export function wantPictures(ids: number[], wantedSide: number): void {
  side = wantedSide;
  const wanted = new Set(ids);
  queue.keep((id) => wanted.has(id));
  ids.forEach((id, rank) => {
    const held = kept.get(`${id}@${side}`);
    if (held) {
      // What is wanted now is forgotten last.
      kept.delete(`${id}@${side}`);
      kept.set(`${id}@${side}`, held);
    }
    if (held || broken.has(id)) return;
    const asked = side;
    queue.add(id, rank, async (signal) => {
      let bitmap: ImageBitmap;
      try {
        bitmap = await api.image(id, asked, signal);
      } catch (error) {
        // The tile says that the photo cannot be read.
        if (aborted(error) || (error instanceof Failure && error.status === 0)) throw error;
        broken.add(id);
        return;
      }
      kept.set(`${id}@${asked}`, bitmap);
      for (const key of kept.keys()) {
        if (kept.size <= KEPT) break;
        kept.get(key)?.close();
        kept.delete(key);
      }
      ready(id);
    });
  });
}

export function holdPictures(): void {
  queue.hold();
}

export function releasePictures(): void {
  queue.release();
}
