// A headless Chromium that watches what a page does: messages, errors, dialogs, requests. Nothing leaves the machine.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const kBrowsers = [process.env.TRACECAST_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where a browser is; undefined: nowhere. */
export const browserPath = kBrowsers.find((path) => path && existsSync(path));

export class Browser {
  static async start(packages) {
    const made = new Browser();
    made.require = createRequire(join(packages, "package.json"));
    made.folder = mkdtempSync(join(tmpdir(), "tracecast-page-"));
    const { chromium } = made.require("playwright-core");
    made.axe = readFileSync(made.require.resolve("axe-core/axe.min.js"), "utf8");
    made.chromium = await chromium.launch({
      executablePath: browserPath,
      args: [
        ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    });
    return made;
  }

  async stop() {
    await this.chromium.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Opens a file; `opened.faults` grows by what must not happen, `opened.ready_ms` is how long it took, `cpu_ms` what of it
   * the page's thread worked. */
  async open(file, { width = 1280, height = 900, dark = false } = {}) {
    const context = await this.chromium.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      acceptDownloads: true,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const faults = [];
    const url = pathToFileURL(file).href;
    page.on("console", (message) => faults.push(`console ${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      if (request.url().split("#")[0] !== url && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) {
        faults.push(`request: ${request.url()}`);
      }
    });
    await page.goto(url, { waitUntil: "load" });
    await page.waitForSelector("html[data-ready]", { timeout: 120_000 });
    const ready_ms = await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => done(performance.now()))),
    );
    const { metrics } = await session.send("Performance.getMetrics");
    const cpu_ms = 1000 * metrics.find((one) => one.name === "ThreadTime").value;
    return { page, faults, ready_ms, cpu_ms, close: () => context.close() };
  }

  /** What axe-core calls serious or critical, a line each. */
  async barriers(page) {
    await page.evaluate(`${this.axe}; 0`);
    const found = await page.evaluate(async () => {
      const result = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return result.violations
        .filter((v) => v.impact === "serious" || v.impact === "critical")
        .map((v) => `${v.id} (${v.nodes.length}): ${v.help}; ${v.nodes[0].html.slice(0, 160)}`);
    });
    return found;
  }

  /** Charts and timelines on which nothing is drawn. */
  async blankCharts(page) {
    return page.evaluate(() => {
      const blank = [];
      for (const section of document.querySelectorAll("section.chart, section.heatmap, section.timeline")) {
        const canvas = section.querySelector("canvas");
        const pixels = canvas?.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const colours = new Set();
        for (let i = 0; pixels && i < pixels.length; i += 4 * 13) {
          if (pixels[i + 3] > 0) colours.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
        }
        if (colours.size < 3) blank.push(section.id);
      }
      return blank;
    });
  }

  /** The CSV that a section's button hands to the browser. */
  async csvOf(page, section) {
    return page.evaluate(async (id) => {
      const make = URL.createObjectURL;
      let handed;
      URL.createObjectURL = (blob) => {
        handed = blob;
        return make.call(URL, blob);
      };
      const buttons = [...document.querySelectorAll(`#${id} button`)];
      buttons.find((button) => button.textContent.trim() === "CSV").click();
      URL.createObjectURL = make;
      return handed.text();
    }, section);
  }

  /** The file that a reader has after pressing that button. A browser may be slow to give several of one page. */
  async downloadOf(page, section) {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click(`#${section} button:text-is("CSV")`),
    ]);
    const path = join(this.folder, `${section}.csv`);
    await download.saveAs(path);
    return readFileSync(path, "utf8");
  }
}
