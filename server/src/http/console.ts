import type { IncomingHttpHeaders } from 'node:http';
import { NO_SNIFFING, type PreparedResponse } from './exchange.ts';
import { targetPath } from './routes.ts';
import { FOR_EVER, fileResponse, REVALIDATED, ServedFolder } from './served-files.ts';

const PAGE = 'index.html';

/** Files whose names change with their contents: the build puts a hash into each. */
const HASHED_PREFIX = 'assets/';

/**
 * The console shows texts of strangers, so nothing in a page may run that the build has not made, nothing is
 * loaded from elsewhere, and no other site may frame it.
 */
const SECURITY_HEADERS = [
  'Content-Security-Policy',
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  ...NO_SNIFFING,
  ...['X-Frame-Options', 'DENY'],
  ...['Referrer-Policy', 'no-referrer'],
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

const NOT_BUILT_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Millrace</title>
<h1>The console is not built yet</h1>
<p>In the folder of the program run:</p>
<pre>npm run build --workspace console</pre>
<p>Then load this page again; the server need not be started again. Everything else works without the console:
<a href="/healthz">/healthz</a>, <a href="/api/openapi.json">the control API</a>, and <code>millrace status</code> in a terminal.</p>
</html>
`;

/**
 * The files of the console, about a megabyte. A new build is found when a page is asked for.
 */
export class ConsoleFiles {
  readonly #files: ServedFolder;

  constructor(folder: string) {
    this.#files = new ServedFolder(folder, PAGE);
  }

  /**
   * The response for a path; undefined when there is nothing. Every path that can be no file is one of the
   * console's own pages, which differ only in the browser, if a browser asks for a page.
   */
  async respond(target: string, headers: IncomingHttpHeaders): Promise<PreparedResponse | undefined> {
    const path = decodePath(targetPath(target));
    if (path === undefined) return undefined;
    const isPage = path === '' || (isPagePath(path) && headers.accept?.includes('text/html') === true);
    if (isPage || !this.#files.isThere) await this.#files.refresh();
    if (!this.#files.isThere) return isPage ? NOT_BUILT_RESPONSE : undefined;
    const name = isPage ? PAGE : path;
    const file = await this.#files.file(name);
    if (file === undefined) return undefined;
    const cacheControl = name.startsWith(HASHED_PREFIX) ? FOR_EVER : REVALIDATED;
    return await fileResponse(file, headers, cacheControl, SECURITY_HEADERS);
  }
}

/**
 * Files of a build stand at its top, with an extension, or in `assets`. Below any other folder a dot belongs
 * to a name: `users/ada@example.com`.
 */
function isPagePath(path: string): boolean {
  const [first = ''] = path.split('/', 1);
  return first !== 'assets' && !first.includes('.');
}

/** The path without its first slash. */
function decodePath(path: string): string | undefined {
  try {
    return decodeURIComponent(path).slice(1);
  } catch {
    return undefined;
  }
}

const NOT_BUILT_RESPONSE: PreparedResponse = {
  status: 503,
  headers: [
    ...['Content-Type', 'text/html; charset=utf-8'],
    ...['Content-Length', String(Buffer.byteLength(NOT_BUILT_PAGE))],
    ...['Cache-Control', 'no-store'],
    ...SECURITY_HEADERS,
  ],
  body: NOT_BUILT_PAGE,
};
