// Masks from files. A mask of several values, as index masks have, is asked about: only one value is the class.

import { h, iconButton } from "./dom";
import type { Photo } from "./types";
import { words } from "./words";

/** Values that are shown to choose from, the largest first. */
const SHOWN = 12;

interface Value {
  /** Red, green and blue in one number. */
  colour: number;
  pixels: number;
}

/** The file to send: as it is, or with one value alone. `null` if the person chose none. */
export async function maskToSend(file: File, photo: Photo, className: string): Promise<Blob | null> {
  // What cannot be read here, or is of another size, is for the server to refuse.
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" }).catch(() => null);
  if (!bitmap || bitmap.width !== photo.width || bitmap.height !== photo.height) return file;
  const canvas = h("canvas", { width: bitmap.width, height: bitmap.height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) return file;
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  const image = context.getImageData(0, 0, canvas.width, canvas.height);
  const colourAt = (at: number) => (image.data[at + 3] === 0 ? 0 : (image.data[at]! << 16) | (image.data[at + 1]! << 8) | image.data[at + 2]!);
  const counts = new Map<number, number>();
  for (let at = 0; at < image.data.length; at += 4) counts.set(colourAt(at), (counts.get(colourAt(at)) ?? 0) + 1);
  counts.delete(0);
  if (counts.size < 2) return file;

  const values = [...counts].map(([colour, pixels]) => ({ colour, pixels })).sort((a, b) => b.pixels - a.pixels);
  const chosen = await ask(values, nameOf(new Uint8Array(await file.arrayBuffer())), photo.width * photo.height, className);
  if (chosen === null || chosen === "all") return chosen && file;
  for (let at = 0; at < image.data.length; at += 4) image.data.fill(colourAt(at) === chosen ? 255 : 0, at, at + 3).fill(255, at + 3, at + 4);
  context.putImageData(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Colours as the file names them: places in its palette, greys, or else colours. */
function nameOf(file: Uint8Array): (colour: number) => string {
  const [depth, kind] = [file[24] ?? 8, file[25]];
  const palette = new Map<number, number>();
  const view = new DataView(file.buffer);
  for (let at = 8; at + 12 <= file.length; at += view.getUint32(at) + 12) {
    if (view.getUint32(at + 4) !== 0x504c5445) continue; // "PLTE"
    const entries = file.subarray(at + 8, at + 8 + view.getUint32(at));
    for (let i = 0; 3 * i + 2 < entries.length; i += 1) {
      const colour = (entries[3 * i]! << 16) | (entries[3 * i + 1]! << 8) | entries[3 * i + 2]!;
      if (!palette.has(colour)) palette.set(colour, i);
    }
    break;
  }
  return (colour) => {
    const place = palette.get(colour);
    if (kind === 3 && place !== undefined) return words.tools.maskValue(place);
    // Greys of fewer bits are spread over 0 to 255 when a picture is decoded.
    const grey = colour & 255;
    return colour === grey * 0x010101 ? words.tools.maskValue(Math.round((grey * (2 ** Math.min(8, depth) - 1)) / 255)) : words.tools.maskColour(hex(colour));
  };
}

const hex = (colour: number) => `#${colour.toString(16).padStart(6, "0")}`;

function ask(values: Value[], name: (colour: number) => string, size: number, className: string): Promise<number | "all" | null> {
  return new Promise((resolve) => {
    let chosen: number | "all" | null = null;
    const row = (value: number | "all", text: string, pixels: number) => {
      const swatch = h("i", { class: "swatch" });
      if (value !== "all") swatch.style.backgroundColor = hex(value);
      const choose = () => {
        chosen = value;
        dialog.close();
      };
      return h("button", { type: "button", class: "export-row", autofocus: value === values[0]!.colour, onclick: choose }, swatch, h("span", {}, h("strong", {}, text), h("small", {}, words.tools.maskShare(pixels / size))));
    };
    const dialog = h(
      "dialog",
      { class: "help mask-dialog", "aria-labelledby": "mask-title" },
      h("header", {}, h("h2", { id: "mask-title" }, words.tools.maskSeveral(values.length)), iconButton("close", words.close, () => dialog.close())),
      h("p", {}, words.tools.maskWhich(className)),
      ...values.slice(0, SHOWN).map(({ colour, pixels }) => row(colour, name(colour), pixels)),
      row("all", words.tools.maskAll, values.reduce((sum, { pixels }) => sum + pixels, 0)),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(chosen);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
