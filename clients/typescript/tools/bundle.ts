import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';

/** The greatest size of the browser client, gzipped, in bytes. */
export const LARGEST = 8300;

export interface Bundle {
  /** One ES module, minified, that imports nothing. */
  readonly code: string;
  /** Bytes of it as a server would send it. */
  readonly gzipped: number;
}

/** The browser client with all it needs. */
export async function bundleForBrowsers(): Promise<Bundle> {
  const input = fileURLToPath(new URL('../src/browser.ts', import.meta.url));
  const bundle = await rolldown({ input, platform: 'browser', logLevel: 'silent' });
  const { output } = await bundle.generate({ format: 'esm', minify: true });
  await bundle.close();
  // Notes for a bundler that comes after; here none does.
  const code = output[0].code.replaceAll('/* @__PURE__ */ ', '');
  return { code, gzipped: gzipSync(code, { level: 9 }).length };
}
