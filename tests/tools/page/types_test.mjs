// TypeScript's own check of the page's sources: types_test.mjs PACKAGES. Exit code 77: skipped, this build has no page.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
const compiler = join(folder, "node_modules/typescript/bin/tsc");
if (!existsSync(compiler)) {
  console.log(`${process.env.CI ? "FAILED" : "[skipped]"}: no TypeScript in ${folder}: this build has no page`);
  process.exit(process.env.CI ? 1 : 77);
}
const { status } = spawnSync(process.execPath, [compiler, "--noEmit", "-p", folder], { stdio: "inherit" });
process.exit(status ?? 1);
