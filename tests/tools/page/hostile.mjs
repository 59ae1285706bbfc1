// Input whose names are markup, scripts, formulas and commands to a terminal; and a recording of many slices.

export const kHostile = {
  markup: "</script><img src=x onerror=globalThis.taken=1>",
  comment: "<!--<script>globalThis.taken=1//",
  separators: "a\u2028b\u2029c\u202ed",
  formula: "=HYPERLINK(\"http://x\")",
  terminal: "\u001b[31mred\u0007\u009b2J",
  handler: "\"onmouseover=globalThis.taken=1 ${globalThis.taken=1} {{7*7}}",
};
const kNames = Object.values(kHostile);

function trace(names, launches) {
  const events = [];
  let at = 1000;
  const begin = { ph: "X", cat: "user_annotation", name: "ProfilerStep#1", pid: 1, tid: 1, ts: at };
  for (let i = 0; i < launches; ++i, at += 20) {
    const name = names[i % names.length];
    events.push(
      { ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", pid: 1, tid: 1, ts: at, dur: 5, args: { correlation: i + 1 } },
      { ph: "X", cat: "kernel", name, pid: 0, tid: 7, ts: at + 8, dur: 11, args: { device: 0, stream: 7, correlation: i + 1 } },
    );
  }
  events.push({ ...begin, dur: at - 1000 });
  return JSON.stringify({
    schemaVersion: 1,
    deviceProperties: [{ id: 0, name: names === kNames ? kHostile.markup : "Tesla V100-SXM2-16GB" }],
    traceEvents: events,
  });
}

export const hostileTrace = () => trace(kNames, 4 * kNames.length);
/** Twice as many slices as launches. */
export const longTrace = (launches) =>
  trace(["volta_sgemm_128x64_nn", "elementwise_kernel", "volta_scudnn_128x64_relu_interior_nn_v1", "cudnn_bn_fw_tr"], launches);

const field = (text) => `"${text.replaceAll('"', '""')}"`;

export function hostileTable() {
  const lines = ["id,gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s,source"];
  kNames.forEach((name, i) =>
    lines.push(`${field(name)},Tesla V100-SXM2-16GB,1,pytorch,fp32,resnet50,train,${16 * (i + 1)},${300 + i},${field(name)}`),
  );
  lines.push(`${field(kHostile.markup + "2")},${field(kHostile.markup)},1,pytorch,fp32,resnet50,train,16,300,x`);
  return `${lines.join("\n")}\n`;
}

export function hostileJobs() {
  const lines = ["job_id,num_gpu,submit_s,duration_s,model"];
  kNames.forEach((name, i) => lines.push(`${field(name)},${1 + (i % 4)},${100 * i},${1000 + 300 * i},${field(kNames[(i + 1) % kNames.length])}`));
  return `${lines.join("\n")}\n`;
}
