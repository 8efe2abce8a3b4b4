// Build the bundle: `node build.mjs [FOLDER]`. The same sources and lock file give the same bytes on every machine.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "..", "src", "duologue", "inspector", "static");
const options = {
  bundle: true,
  minify: true,
  charset: "utf8",
  legalComments: "none",
  target: ["chrome111", "firefox113", "safari16.4"],
  write: false,
  absWorkingDir: here,
};

const script = await build({
  ...options,
  entryPoints: ["src/main.tsx"],
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
  metafile: true,
});
const style = await build({ ...options, entryPoints: ["src/style.css"] });

// The program stands inside a <script> element, and the style inside a <style> element.
const text = script.outputFiles[0].text;
if (/<\/script|<!--/i.test(text)) throw new Error("the program would end its element");
if (style.outputFiles[0].text.includes("</")) throw new Error("the style would end its element");

const bundled = [
  ...new Set(
    Object.keys(script.metafile.inputs)
      .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
      .filter(Boolean),
  ),
].sort();
const licences = bundled.map((name) => {
  const { version, license } = JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8"));
  const terms = readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim();
  return `${name} ${version} (${license})\n\n${terms}\n`;
});

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "inspector.js"), text);
writeFileSync(join(folder, "inspector.css"), style.outputFiles[0].text);
writeFileSync(
  join(folder, "LICENSES.txt"),
  `inspector.js contains these packages:\n\n${licences.join(`\n${"-".repeat(80)}\n\n`)}`,
);
