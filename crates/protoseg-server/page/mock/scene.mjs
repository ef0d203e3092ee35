// Pictures for the mock: a sky, a meadow, a pond, and things of a few kinds on them. A seed in, a picture out.

export function random(seed) {
  let s = seed >>> 0;
  return () => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const sizes = [[320, 240], [320, 213], [240, 320], [360, 240]];

/** Width and height of a picture, without drawing it. */
export function sceneSize(seed) {
  return sizes[Math.floor(random(seed * 7919 + 1)() * 4)];
}

export function scene(seed) {
  const next = random(seed * 7919 + 1);
  const [width, height] = sizes[Math.floor(next() * 4)];
  const rgb = new Uint8Array(3 * width * height);
  const horizon = height * (0.35 + 0.25 * next());
  const light = 0.85 + 0.25 * next();
  const set = (x, y, r, g, b, noise) => {
    const n = (next() - 0.5) * noise;
    const at = 3 * (y * width + x);
    [r, g, b].forEach((value, k) => (rgb[at + k] = Math.max(0, Math.min(255, value * light + n))));
  };
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      if (y < horizon) set(x, y, 150 + (60 * y) / horizon, 195 + (30 * y) / horizon, 235, 8);
      else set(x, y, 92 + 12 * Math.sin(x / 9 + y / 5), 150 - (30 * (y - horizon)) / height, 70, 26);
    }
  }
  const disc = (cx, cy, rx, ry, colour, noise) => {
    for (let y = Math.max(0, Math.floor(cy - ry)); y < Math.min(height, cy + ry); y += 1) {
      for (let x = Math.max(0, Math.floor(cx - rx)); x < Math.min(width, cx + rx); x += 1) {
        const d = ((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2;
        if (d < 1) set(x, y, ...colour.map((value) => value * (1.06 - 0.22 * d)), noise);
      }
    }
  };
  const ground = () => horizon + (height - horizon) * (0.25 + 0.6 * next());
  if (next() < 0.6) disc(width * next(), ground() + 10, 60 + 50 * next(), 16 + 14 * next(), [70, 110, 165], 14);
  for (let k = Math.floor(next() * 3); k > 0; k -= 1) {
    const [x, y, r] = [width * next(), horizon + 4, 18 + 22 * next()];
    disc(x, y, 4, r * 0.9, [96, 66, 42], 16);
    disc(x, y - r * 1.1, r, r * 0.95, [38, 92, 48], 40);
  }
  for (let k = 1 + Math.floor(next() * 3); k > 0; k -= 1) {
    const [x, y, r] = [width * (0.1 + 0.8 * next()), ground(), 13 + 16 * next()];
    disc(x, y, r, r * 0.62, [236, 190, 52], 12);
    disc(x + r * 0.8, y - r * 0.6, r * 0.42, r * 0.42, [240, 200, 70], 10);
    disc(x + r * 1.2, y - r * 0.55, r * 0.22, r * 0.1, [226, 110, 30], 6);
  }
  for (let k = Math.floor(next() * 2.6); k > 0; k -= 1) disc(width * next(), ground(), 9 + 12 * next(), 9 + 12 * next(), [196, 52, 56], 14);
  return { width, height, rgb };
}
