// Photos that are dropped on the page or chosen from a dialog. Folders are walked through.

import { loadMask, loadPhotos, loadProjectSoon, openPhoto } from "./actions";
import { api } from "./api";
import { h } from "./dom";
import { notice, problem, report, whileSaving } from "./status";
import { state } from "./store";
import { words } from "./words";

const photo = /\.(jpe?g|png|webp|bmp|tiff?|gif)$/i;

const picker = h("input", { type: "file", multiple: true, accept: "image/*", hidden: true, id: "photo-file" });
const maskPicker = h("input", { type: "file", accept: "image/png", hidden: true, id: "mask-file" });
const curtain = h("div", { class: "curtain", hidden: true, "aria-hidden": "true" }, h("div", {}, words.gallery.drop));

export const uploadElements = [picker, maskPicker, curtain];

export function pickPhotos(): void {
  picker.click();
}

export function pickMask(): void {
  maskPicker.click();
}

picker.addEventListener("change", () => {
  void addPhotos([...(picker.files ?? [])]);
  picker.value = "";
});

maskPicker.addEventListener("change", () => {
  const file = maskPicker.files?.[0];
  if (file) void loadMask(file).catch(report);
  maskPicker.value = "";
});

let depth = 0;
const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;

export function acceptDrops(): void {
  window.addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth += 1;
    curtain.hidden = false;
  });
  window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  window.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    curtain.hidden = depth === 0;
  });
  window.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    curtain.hidden = true;
    void gather(event.dataTransfer!).then(addPhotos).catch(report);
  });
}

async function gather(data: DataTransfer): Promise<File[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null && entry !== undefined);
  if (entries.length === 0) return [...data.files];
  const files: File[] = [];
  for (const entry of entries) await walk(entry, files);
  return files;
}

async function walk(entry: FileSystemEntry, files: File[]): Promise<void> {
  if (entry.isFile) {
    files.push(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return;
    for (const child of part) await walk(child, files);
  }
}

async function addPhotos(files: File[]): Promise<void> {
  const photos = files.filter((file) => file.type.startsWith("image/") || photo.test(file.name));
  if (photos.length === 0) {
    if (files.length > 0) problem(words.upload.none, words.upload.noneHint);
    return;
  }
  let done = 0;
  let first: number | null = null;
  const rest = photos[Symbol.iterator]();
  const worker = async () => {
    for (const file of rest) {
      try {
        const added = await whileSaving(() => api.addPhoto(file));
        first ??= added.id;
        done += 1;
        if (photos.length > 10 && done % 10 === 0) notice(words.upload.progress(done, photos.length));
      } catch (error) {
        if (error instanceof Error) problem(words.upload.failed(file.name), [error.message, (error as { hint?: string | null }).hint].filter(Boolean).join(". "));
      }
    }
  };
  await Promise.all([worker(), worker()]);
  await loadPhotos().catch(report);
  loadProjectSoon();
  const hasPng = photos.some((file) => file.type === "image/png");
  if (done > 0) notice(hasPng ? words.upload.doneMaybeMask(done) : words.upload.done(done));
  if (first !== null && state.current === null) openPhoto(first);
}
