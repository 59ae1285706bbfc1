// Bundles the page into one HTML file: build.mjs OUTPUT. The data go where the marker stands; scripts and styles are
// allowed by their hashes alone, so that nothing in the data can run.
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2];
if (!output) throw new Error("usage: build.mjs OUTPUT");

const bundled = await build({
  entryPoints: [join(folder, "src/main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
  absWorkingDir: folder,
  write: false,
});
const styled = await build({
  entryPoints: [join(folder, "src/page.css")],
  minify: true,
  charset: "ascii",
  absWorkingDir: folder,
  write: false,
});
// "</script" would end the script, "<!--" begin a comment in it: both stand in strings of libraries alone.
const script = bundled.outputFiles[0].text.trim().replace(/<(?=\/script|!--)/gi, "\\x3c");
const style = styled.outputFiles[0].text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
const page = readFileSync(join(folder, "src/page.html"), "utf8").replace(
  /@@(POLICY|STYLE|SCRIPT)@@/g,
  (_, name) => parts[name],
);
if (page.split("@@DATA@@").length !== 2) throw new Error("the page needs one place for its data");
writeFileSync(`${output}.partial`, page);
renameSync(`${output}.partial`, output);
