// Builds the page into ../static: index.html, and assets whose names contain a hash of their content.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

const page = dirname(fileURLToPath(import.meta.url));
const output = join(page, '..', 'static');
const assets = join(output, 'assets');
const ROOT = '/ui/assets/';

rmSync(output, { recursive: true, force: true });
mkdirSync(assets, { recursive: true });

const result = await esbuild.build({
  absWorkingDir: page,
  entryPoints: ['src/main.tsx', 'src/styles/page.css'],
  outdir: assets,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  legalComments: 'none',
  metafile: true,
  write: false,
  logLevel: 'warning',
});

const names = new Map();
for (const file of result.outputFiles) {
  writeFileSync(join(assets, basename(file.path)), file.contents);
}
for (const [path, built] of Object.entries(result.metafile.outputs)) {
  if (built.entryPoint) names.set(built.entryPoint, [basename(path), built.imports]);
}

// An icon of its own: without one, browsers ask for /favicon.ico.
const icon = readFileSync(join(page, 'src', 'icon.svg'));
const iconName = `icon-${createHash('sha256').update(icon).digest('hex').slice(0, 8)}.svg`;
writeFileSync(join(assets, iconName), icon);

const [script, imports] = names.get('src/main.tsx');
const [styles] = names.get('src/styles/page.css');
const preloaded = imports
  .filter((each) => each.kind === 'import-statement')
  .map((each) => `<link rel="modulepreload" href="${ROOT}${basename(each.path)}">`);
writeFileSync(
  join(output, 'index.html'),
  readFileSync(join(page, 'src', 'index.html'), 'utf8')
    .replace('<!-- icon -->', `<link rel="icon" type="image/svg+xml" href="${ROOT}${iconName}">`)
    .replace('<!-- styles -->', `<link rel="stylesheet" href="${ROOT}${styles}">`)
    .replace('<!-- script -->', [...preloaded, `<script type="module" src="${ROOT}${script}"></script>`].join('\n')),
);
