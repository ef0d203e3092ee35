// Just enough PNG for the mock: writing RGB, reading 8-bit grey, RGB, palette and RGBA without interlacing.
import { deflateSync, inflateSync } from "node:zlib";

const table = new Uint32Array(256).map((_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

function crc(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) c = table[(c ^ byte) & 255] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

export function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc(body), body.length + 4);
  return out;
}

export function writePng(width, height, rgb) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 8;
  head[9] = 2;
  const rows = Buffer.alloc(height * (1 + 3 * width));
  for (let y = 0; y < height; y += 1) Buffer.from(rgb.buffer, rgb.byteOffset + y * 3 * width, 3 * width).copy(rows, y * (1 + 3 * width) + 1);
  const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("IDAT", deflateSync(rows, { level: 1 })), chunk("IEND", Buffer.alloc(0))]);
}

/** Returns width, height, RGB bytes, alpha bytes and, of files with one channel, the bytes as they are. */
export function readPng(file) {
  if (file.length < 33 || file.readUInt32BE(0) !== 0x89504e47) throw new Error("not a PNG");
  const parts = [];
  let palette = null;
  let transparency = null;
  const [width, height] = [file.readUInt32BE(16), file.readUInt32BE(20)];
  const [depth, colour, interlace] = [file[24], file[25], file[28]];
  const channels = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }[colour];
  if (depth !== 8 || interlace !== 0 || !channels) throw new Error("this kind of PNG");
  for (let at = 8; at + 12 <= file.length; ) {
    const size = file.readUInt32BE(at);
    const type = file.toString("latin1", at + 4, at + 8);
    const data = file.subarray(at + 8, at + 8 + size);
    if (type === "IDAT") parts.push(data);
    if (type === "PLTE") palette = data;
    if (type === "tRNS") transparency = data;
    at += size + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const pixels = new Uint8Array(height * stride);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const a = x >= channels ? pixels[y * stride + x - channels] : 0;
      const b = y > 0 ? pixels[(y - 1) * stride + x] : 0;
      const c = x >= channels && y > 0 ? pixels[(y - 1) * stride + x - channels] : 0;
      const p = a + b - c;
      const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
      const guess = [0, a, b, (a + b) >> 1, pa <= pb && pa <= pc ? a : pb <= pc ? b : c][filter];
      pixels[y * stride + x] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  const rgb = new Uint8Array(3 * width * height);
  const alpha = new Uint8Array(width * height).fill(255);
  for (let i = 0; i < width * height; i += 1) {
    const at = i * channels;
    for (let k = 0; k < 3; k += 1) {
      rgb[3 * i + k] = colour === 3 ? palette[3 * pixels[at] + k] : channels >= 3 ? pixels[at + k] : pixels[at];
    }
    if (channels === 4 || channels === 2) alpha[i] = pixels[at + channels - 1];
    if (colour === 3 && transparency) alpha[i] = transparency[pixels[at]] ?? 255;
  }
  return { width, height, rgb, alpha, indices: channels === 1 ? pixels : null };
}
