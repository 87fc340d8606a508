import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { extname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { PreparedResponse } from './exchange.ts';

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

/** For files whose names change with their contents. */
export const FOR_EVER = 'public, max-age=31536000, immutable';

/** For all others: kept, and asked for again each time with what is kept. */
export const REVALIDATED = 'no-cache';

interface ServedFile {
  readonly etag: string;
  readonly type: string;
  readonly isCompressible: boolean;
  readonly bytes: Buffer;
  /** By Content-Encoding; made when a client first asks for it. */
  readonly bodies: Map<Encoding, Promise<Buffer>>;
}

export type Encoding = 'identity' | 'gzip' | 'br';

/** The files of a folder as they were when one of them was written. */
interface FolderState {
  /** Time at which that file was written, in milliseconds. */
  readonly madeAt: number;
  readonly names: ReadonlySet<string>;
  readonly files: Map<string, Promise<ServedFile>>;
}

/**
 * The files of one folder, read and compressed when they are first asked for and kept in memory. Names are
 * looked up in a list of files, so none can lead out of the folder.
 */
export class ServedFolder {
  readonly #folder: string;
  readonly #last: string;
  #state: FolderState | undefined;

  /** `last`: the file that is written last, whose time tells a new state of the folder from an old one. */
  constructor(folder: string, last: string) {
    this.#folder = folder;
    this.#last = last;
  }

  /** Whether there was something when `refresh` looked last. */
  get isThere(): boolean {
    return this.#state !== undefined;
  }

  /** Looks for a new state. A folder that is being written has no last file yet. */
  async refresh(): Promise<void> {
    const madeAt = await stat(join(this.#folder, this.#last)).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    );
    if (madeAt === this.#state?.madeAt) return;
    if (madeAt === undefined) {
      this.#state = undefined;
      return;
    }
    const entries = await readdir(this.#folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const names = new Set(
      files.map(({ parentPath, name }) =>
        relative(this.#folder, join(parentPath, name)).replaceAll(sep, '/'),
      ),
    );
    this.#state = { madeAt, names, files: new Map() };
  }

  /** A file by its path in the folder; undefined where there is none. */
  file(name: string): Promise<ServedFile> | undefined {
    const state = this.#state;
    if (state?.names.has(name) !== true) return undefined;
    let file = state.files.get(name);
    if (file === undefined) {
      file = readServedFile(join(this.#folder, name));
      state.files.set(name, file);
      file.catch(() => state.files.delete(name));
    }
    return file;
  }
}

async function readServedFile(path: string): Promise<ServedFile> {
  const bytes = await readFile(path);
  const extension = extname(path);
  return {
    etag: hashOf(bytes),
    type: TYPES[extension] ?? 'application/octet-stream',
    isCompressible: !NOT_COMPRESSED.includes(extension),
    bytes,
    bodies: new Map([['identity', Promise.resolve(bytes)]]),
  };
}

/** A tag for these bytes, without its quotes. */
export function hashOf(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
}

/** The answer with a file. `more` are the headers that belong to this folder. */
export async function fileResponse(
  file: ServedFile,
  headers: IncomingHttpHeaders,
  cacheControl: string,
  more: readonly string[],
): Promise<PreparedResponse> {
  const encoding = file.isCompressible ? encodingFor(headers['accept-encoding'], ['br', 'gzip']) : 'identity';
  const found = { etag: file.etag, type: file.type, encoding, cacheControl, more };
  return isKept(headers, found) ? keptResponse(found) : bodyResponse(found, await bodyOf(file, encoding));
}

/** A body as the headers of its answer describe it. */
export interface Representation {
  readonly etag: string;
  readonly type: string;
  readonly encoding: Encoding;
  readonly cacheControl: string;
  /** Headers beside these, names and values in turn. */
  readonly more: readonly string[];
}

/** Whether the client has this body already. */
export function isKept(headers: IncomingHttpHeaders, found: Representation): boolean {
  const etag = etagOf(found);
  return headers['if-none-match']?.split(',').some((one) => one.trim().replace(/^W\//, '') === etag) ?? false;
}

export function keptResponse(found: Representation): PreparedResponse {
  return { status: 304, headers: cachingHeaders(found), body: '' };
}

export function bodyResponse(found: Representation, body: Buffer): PreparedResponse {
  const { type, encoding } = found;
  return {
    status: 200,
    headers: [
      ...['Content-Type', type, 'Content-Length', String(body.length)],
      ...(encoding === 'identity' ? [] : ['Content-Encoding', encoding]),
      ...cachingHeaders(found),
    ],
    body,
  };
}

function cachingHeaders(found: Representation): string[] {
  return [
    ...['Cache-Control', found.cacheControl],
    ...['ETag', etagOf(found), 'Vary', 'Accept-Encoding'],
    ...found.more,
  ];
}

function etagOf({ etag, encoding }: Representation): string {
  return `"${etag}${encoding === 'identity' ? '' : `-${encoding}`}"`;
}

/** The first of these encodings that the client takes. */
export function encodingFor(accepted = '', offered: readonly Encoding[]): Encoding {
  const names = accepted
    .split(',')
    .filter((one) => !/;\s*q=0(\.0*)?\s*$/.test(one))
    .map((one) => one.split(';')[0]!.trim());
  return offered.find((name) => names.includes(name)) ?? 'identity';
}

/** Better than 9 takes seconds for the largest file, and saves a twentieth. */
const BROTLI_OPTIONS = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

/** Compresses once, on a thread of zlib's own. */
function bodyOf({ bytes, bodies }: ServedFile, encoding: Encoding): Promise<Buffer> {
  let body = bodies.get(encoding);
  if (body === undefined) {
    body = encoding === 'br' ? promisify(brotliCompress)(bytes, BROTLI_OPTIONS) : promisify(gzip)(bytes);
    bodies.set(encoding, body);
  }
  return body;
}
