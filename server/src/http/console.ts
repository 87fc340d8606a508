import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { extname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { NO_SNIFFING, type PreparedResponse } from './exchange.ts';
import { targetPath } from './routes.ts';

const PAGE = 'index.html';

/** Files whose names change with their contents: the build puts a hash into each. */
const HASHED_PREFIX = 'assets/';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
};

/** Types that are compressed already. */
const NOT_COMPRESSED = ['.png', '.ico', '.woff2'];

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

interface ConsoleFile {
  readonly etag: string;
  readonly type: string;
  readonly isCompressible: boolean;
  /** By Content-Encoding; made when a client first asks for it. */
  readonly bodies: Map<Encoding, Promise<Buffer>>;
}

type Encoding = 'identity' | 'gzip' | 'br';

/** One build of the console. */
interface ConsoleBuild {
  /** Time at which its page was written, in milliseconds. */
  readonly madeAt: number;
  readonly names: ReadonlySet<string>;
  readonly files: Map<string, Promise<ConsoleFile>>;
}

/**
 * The files of the console, read and compressed when they are first asked for and kept in memory, about a
 * megabyte. A new build is found when a page is asked for.
 */
export class ConsoleFiles {
  readonly #folder: string;
  #build: ConsoleBuild | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The response for a path; undefined when there is nothing. Every path that can be no file is one of the
   * console's own pages, which differ only in the browser, if a browser asks for a page.
   */
  async respond(target: string, headers: IncomingHttpHeaders): Promise<PreparedResponse | undefined> {
    const path = decodePath(targetPath(target));
    if (path === undefined) return undefined;
    const isPage = path === '' || (isPagePath(path) && headers.accept?.includes('text/html') === true);
    if (isPage || this.#build === undefined) await this.#refresh();
    const build = this.#build;
    if (build === undefined) return isPage ? NOT_BUILT_RESPONSE : undefined;
    const name = isPage ? PAGE : path;
    if (!build.names.has(name)) return undefined;
    return await fileResponse(name, await this.#file(build, name), headers);
  }

  /** Looks for a new build. A build that is under way has no page yet. */
  async #refresh(): Promise<void> {
    const madeAt = await stat(join(this.#folder, PAGE)).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    );
    if (madeAt === this.#build?.madeAt) return;
    if (madeAt === undefined) {
      this.#build = undefined;
      return;
    }
    const entries = await readdir(this.#folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const names = new Set(
      files.map(({ parentPath, name }) =>
        relative(this.#folder, join(parentPath, name)).replaceAll(sep, '/'),
      ),
    );
    this.#build = { madeAt, names, files: new Map() };
  }

  #file({ files }: ConsoleBuild, name: string): Promise<ConsoleFile> {
    let file = files.get(name);
    if (file === undefined) {
      file = readConsoleFile(join(this.#folder, name));
      files.set(name, file);
      file.catch(() => files.delete(name));
    }
    return file;
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

/**
 * The path without its first slash. Names are looked up in a list of files, so none can lead out of the
 * folder.
 */
function decodePath(path: string): string | undefined {
  try {
    return decodeURIComponent(path).slice(1);
  } catch {
    return undefined;
  }
}

async function readConsoleFile(path: string): Promise<ConsoleFile> {
  const bytes = await readFile(path);
  const extension = extname(path);
  return {
    etag: createHash('sha256').update(bytes).digest('base64url').slice(0, 22),
    type: TYPES[extension] ?? 'application/octet-stream',
    isCompressible: !NOT_COMPRESSED.includes(extension),
    bodies: new Map([['identity', Promise.resolve(bytes)]]),
  };
}

async function fileResponse(
  name: string,
  file: ConsoleFile,
  headers: IncomingHttpHeaders,
): Promise<PreparedResponse> {
  const encoding = file.isCompressible ? encodingFor(headers['accept-encoding']) : 'identity';
  const etag = `"${file.etag}${encoding === 'identity' ? '' : `-${encoding}`}"`;
  const isHashed = name.startsWith(HASHED_PREFIX);
  const shared = [
    ...['Cache-Control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache'],
    ...['ETag', etag, 'Vary', 'Accept-Encoding'],
    ...SECURITY_HEADERS,
  ];
  if (mentions(headers['if-none-match'], etag)) return { status: 304, headers: shared, body: '' };
  const body = await bodyOf(file, encoding);
  return {
    status: 200,
    headers: [
      ...['Content-Type', file.type, 'Content-Length', String(body.length)],
      ...(encoding === 'identity' ? [] : ['Content-Encoding', encoding]),
      ...shared,
    ],
    body,
  };
}

function mentions(ifNoneMatch: string | undefined, etag: string): boolean {
  return ifNoneMatch?.split(',').some((one) => one.trim().replace(/^W\//, '') === etag) ?? false;
}

function encodingFor(accepted = ''): Encoding {
  const names = accepted
    .split(',')
    .filter((one) => !/;\s*q=0(\.0*)?\s*$/.test(one))
    .map((one) => one.split(';')[0]!.trim());
  return (['br', 'gzip'] as const).find((name) => names.includes(name)) ?? 'identity';
}

/** Better than 9 takes seconds for the largest file, and saves a twentieth. */
const BROTLI_OPTIONS = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

/** Compresses once, on a thread of zlib's own. */
function bodyOf({ bodies }: ConsoleFile, encoding: Encoding): Promise<Buffer> {
  let body = bodies.get(encoding);
  if (body === undefined) {
    const compress = (bytes: Buffer) =>
      encoding === 'br' ? promisify(brotliCompress)(bytes, BROTLI_OPTIONS) : promisify(gzip)(bytes);
    body = bodies.get('identity')!.then(compress);
    bodies.set(encoding, body);
  }
  return body;
}

const NOT_BUILT_RESPONSE: PreparedResponse = {
  status: 503,
  headers: [
    ...['Content-Type', TYPES['.html']!, 'Content-Length', String(Buffer.byteLength(NOT_BUILT_PAGE))],
    ...['Cache-Control', 'no-store'],
    ...SECURITY_HEADERS,
  ],
  body: NOT_BUILT_PAGE,
};
