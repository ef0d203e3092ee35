// Bundles the page into ../assets, which the server embeds. With --check nothing is written: the exit code says whether
// the committed files are those that the sources give.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "assets");

const result = await build({
  absWorkingDir: here,
  entryPoints: { studio: "src/main.ts", "studio-style": "src/studio.css" },
  outdir: "out",
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});

const files = new Map();
for (const file of result.outputFiles) {
  const name = file.path.endsWith(".css") ? "studio.css" : "studio.js";
  files.set(name, file.text);
}
for (const name of ["index.html", "icon.svg"]) {
  files.set(name, await readFile(join(here, "src", name), "utf8"));
}

let stale = 0;
await mkdir(assets, { recursive: true });
for (const [name, text] of files) {
  const path = join(assets, name);
  if (!process.argv.includes("--check")) {
    await writeFile(path, text);
    console.log(`${name}: ${Buffer.byteLength(text)} bytes`);
  } else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
    console.error(`assets/${name} is not what the sources give`);
    stale += 1;
  }
}
if (stale > 0) {
  console.error("hint: run `npm ci && npm run build` in crates/protoseg-server/page and commit the result");
  process.exit(1);
}
