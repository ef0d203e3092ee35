// A file of `protoseg export` in onnxruntime-web (WebAssembly) beside protoseg's own answer.
//
// usage: npm install --no-save --prefix DIR onnxruntime-web
//        node export_web.mjs DIR model.onnx sample.safetensors
//
// The two files are written by
//        protoseg export MODEL -o model.onnx --sample sample.safetensors
//
// Ends with 1 if labels differ elsewhere than at ties, or scores by more than 0.001.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [packages, file, sampleFile] = process.argv.slice(2);
if (!sampleFile) {
  console.error("usage: node export_web.mjs DIR model.onnx sample.safetensors");
  process.exit(2);
}
const require = createRequire(path.resolve(packages, "package.json"));
const ort = await import(pathToFileURL(require.resolve("onnxruntime-web")));
ort.env.wasm.numThreads = 1;

// A safetensors file: the length of a JSON header, the header, the values.
function tensors(bytes) {
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length));
  const kinds = { U8: [Uint8Array, "uint8"], I32: [Int32Array, "int32"], I64: [BigInt64Array, "int64"], F32: [Float32Array, "float32"] };
  const all = {};
  delete header.__metadata__;
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    const [Kind, type] = kinds[dtype];
    const copy = Uint8Array.from(bytes.subarray(8 + length + from, 8 + length + to));
    all[name] = new ort.Tensor(type, new Kind(copy.buffer), shape);
  }
  return all;
}

const { labels, scores, ...inputs } = tensors(readFileSync(sampleFile));
const session = await ort.InferenceSession.create(readFileSync(file), { executionProviders: ["wasm"] });
const start = performance.now();
const answer = await session.run(inputs);
const milliseconds = performance.now() - start;

const pixels = labels.data.length;
const classes = scores.data.length / pixels;
let [different, ties, worst] = [0, 0, 0];
for (let pixel = 0; pixel < pixels; pixel += 1) {
  const own = Array.from({ length: classes }, (_, row) => scores.data[row * pixels + pixel]).sort((a, b) => b - a);
  if (labels.data[pixel] !== answer.labels.data[pixel]) {
    different += 1;
    ties += own[0] - own[1] < 2e-3 ? 1 : 0;
  }
}
for (let at = 0; at < scores.data.length; at += 1) {
  const difference = Math.abs(scores.data[at] - answer.scores.data[at]);
  worst = Number.isNaN(worst) || difference <= worst ? worst : difference;
}
const shape = inputs.image.dims.join(" x ");
console.log(`onnxruntime-web, ${shape}: ${different} other labels, ${ties} ties, scores ${worst.toExponential(1)}, ${milliseconds.toFixed(0)} ms`);
process.exit(different === ties && worst <= 1e-3 ? 0 : 1);
