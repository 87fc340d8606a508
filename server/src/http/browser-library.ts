import type { IncomingHttpHeaders } from 'node:http';
import { constants, crc32, deflateRawSync } from 'node:zlib';
import type { Logger } from '../ports/logger.ts';
import { errorResponse, NO_SNIFFING, type PreparedResponse } from './exchange.ts';
import type { LibraryFile } from './routes.ts';
import {
  bodyResponse,
  encodingFor,
  FOR_EVER,
  fileResponse,
  hashOf,
  isKept,
  keptResponse,
  REVALIDATED,
  ServedFolder,
} from './served-files.ts';

/** The library of one version: the file that the snippet of a page loads, and its chunks beside it. */
const SCRIPT = 'standalone.js';

/** The place in that file where the write key of the page belongs. */
const KEY_PLACE = '__WRITE_KEY__';

/** Chunks have a hash of their content in their name. */
const HASHED = /\.[0-9a-f]{16,}\.js$/;

/** Pages of any site load these, also those that let nothing in which does not say that it may be. */
const OPEN_TO_PAGES = [
  ...['Access-Control-Allow-Origin', '*', 'Cross-Origin-Resource-Policy', 'cross-origin'],
  ...NO_SNIFFING,
];

export interface BrowserLibraryOptions {
  /** The folder with `standalone.js`; undefined where the package that has it is not installed. */
  readonly folder: string | undefined;
  readonly logger: Pick<Logger, 'warn'>;
  /** The write key for the script at a path that a source has chosen; undefined where none has. */
  readonly keyAt?: ((path: string) => string | undefined) | undefined;
}

/**
 * The browser library for pages whose snippet names this server: the script with the key of the page, and the
 * chunks that it loads when it needs them. spec/specification.md, "The browser library".
 */
export class BrowserLibrary {
  readonly #options: BrowserLibraryOptions;
  readonly #files: ServedFolder | undefined;
  #isMissed = false;
  /** The script of the last state of the folder. */
  #script: { readonly bytes: Buffer; readonly template: ScriptTemplate } | undefined;

  constructor(options: BrowserLibraryOptions) {
    this.#options = options;
    const { folder } = options;
    this.#files = folder === undefined ? undefined : new ServedFolder(folder, SCRIPT);
  }

  /** The script that a source has at a path of its own. */
  aliasAt(path: string): LibraryFile | undefined {
    const writeKey = path.endsWith('.js') ? this.#options.keyAt?.(path) : undefined;
    return writeKey === undefined ? undefined : { kind: 'script', writeKey, path };
  }

  async respond(asked: LibraryFile, headers: IncomingHttpHeaders): Promise<PreparedResponse> {
    await this.#files?.refresh();
    if (this.#files?.isThere !== true) {
      this.#missed();
      return NOT_THERE;
    }
    this.#isMissed = false;
    const name = asked.kind === 'script' ? SCRIPT : asked.name;
    const file = name.endsWith('.js') ? await this.#files.file(name) : undefined;
    if (file === undefined) return NOT_THERE;
    if (asked.kind === 'chunk')
      return fileResponse(file, headers, HASHED.test(name) ? FOR_EVER : REVALIDATED, OPEN_TO_PAGES);
    if (this.#script?.bytes !== file.bytes)
      this.#script = { bytes: file.bytes, template: new ScriptTemplate(file.bytes) };
    return scriptResponse(this.#script.template, file.etag, asked, headers);
  }

  /** Says once that a page has asked in vain: nothing is ever sent by that page. */
  #missed(): void {
    if (this.#isMissed) return;
    this.#isMissed = true;
    const { folder, logger } = this.#options;
    const missing = folder === undefined ? '@segment/analytics-next' : `${folder}/${SCRIPT}`;
    const hint =
      'A page asked for the browser library, and it is not there: install the package, or name a folder in browserLibrary.';
    logger.warn({ missing, hint }, 'browser_library.missing');
  }
}

/** Not kept by caches: the library may be there a minute later. */
const NOT_THERE: PreparedResponse = (() => {
  const { headers, ...rest } = errorResponse('not_found');
  return { ...rest, headers: [...headers, 'Cache-Control', 'no-store', ...OPEN_TO_PAGES] };
})();

function scriptResponse(
  template: ScriptTemplate,
  fileTag: string,
  { writeKey, path }: Extract<LibraryFile, { kind: 'script' }>,
  headers: IncomingHttpHeaders,
): PreparedResponse {
  const fillings = { start: hostStatement(path), key: inString(writeKey) };
  const found = {
    etag: hashOf(`${fileTag} ${fillings.start} ${fillings.key}`),
    type: 'text/javascript; charset=utf-8',
    encoding: encodingFor(headers['accept-encoding'], ['gzip']),
    cacheControl: `public, ${REVALIDATED}`,
    more: OPEN_TO_PAGES,
  };
  if (isKept(headers, found)) return keptResponse(found);
  return bodyResponse(
    found,
    found.encoding === 'gzip' ? template.gzipped(fillings) : template.plain(fillings),
  );
}

/**
 * The beginning of the script. The library finds its host in the address of the script only where that is
 * https and has the usual path, and asks its maker's otherwise; but it takes `_cdn` of its global object
 * first. It looks there once under the usual name, before it reads that the page has given it another.
 */
function hostStatement(path: string): string {
  return `${HOST_STATEMENT.replace('PATH', () => `"${inString(path)}"`)}\n`;
}

const HOST_STATEMENT = `
(function () {
  var tag = document.currentScript;
  if (!tag || !tag.src) return;
  var name = tag.getAttribute('data-global-segment-analytics-key') || 'analytics';
  var own = window[name];
  if (!own) return;
  var url = new URL(tag.src);
  var end = url.pathname.lastIndexOf(PATH);
  if (!own._cdn) own._cdn = url.origin + (end < 0 ? '' : url.pathname.slice(0, end));
  if (name === 'analytics') return;
  var other = window.analytics;
  window.analytics = { _cdn: own._cdn };
  Promise.resolve().then(function () {
    if (other === undefined) delete window.analytics;
    else window.analytics = other;
  });
})();`
  .trim()
  .replace(/\n */g, ' ');

/** A text as it stands between the quotes of a string in a script. */
function inString(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replace(
      /['<\u2028\u2029]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
}

/** The texts that stand in a script for one page. */
interface ScriptFillings {
  readonly start: string;
  readonly key: string;
}

/**
 * The script with the places for its fillings. The parts between them are compressed once: anybody can ask
 * for any key, and compressing a whole script for each would cost more than all the rest of the request.
 */
class ScriptTemplate {
  readonly #parts: readonly { readonly text: Buffer; readonly deflated: Buffer }[];

  constructor(file: Buffer) {
    const texts = file.toString().split(KEY_PLACE);
    this.#parts = texts.map((text, index) => {
      const bytes = Buffer.from(text);
      const isLast = index === texts.length - 1;
      // A part that is not the last ends at a whole byte, so that the next one can be put behind it.
      const finishFlush = isLast ? constants.Z_FINISH : constants.Z_SYNC_FLUSH;
      return { text: bytes, deflated: deflateRawSync(bytes, { finishFlush }) };
    });
  }

  plain({ start, key }: ScriptFillings): Buffer {
    const filling = Buffer.from(key);
    return Buffer.concat([
      Buffer.from(start),
      ...this.#parts.flatMap(({ text }, index) => (index === 0 ? [text] : [filling, text])),
    ]);
  }

  /** RFC 1952, with the fillings as stored blocks of RFC 1951. */
  gzipped(fillings: ScriptFillings): Buffer {
    const filling = storedBlock(fillings.key);
    const plain = this.plain(fillings);
    const tail = Buffer.alloc(8);
    tail.writeUInt32LE(crc32(plain), 0);
    tail.writeUInt32LE(plain.length, 4);
    return Buffer.concat([
      GZIP_HEAD,
      storedBlock(fillings.start),
      ...this.#parts.flatMap(({ deflated }, index) => (index === 0 ? [deflated] : [filling, deflated])),
      tail,
    ]);
  }
}

const GZIP_HEAD = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** A block that is not the last of its stream; at most 65,535 bytes, far more than a key or a path has. */
function storedBlock(text: string): Buffer {
  const bytes = Buffer.from(text);
  const head = Buffer.from([0, 0, 0, 0, 0]);
  head.writeUInt16LE(bytes.length, 1);
  head.writeUInt16LE(bytes.length ^ 0xffff, 3);
  return Buffer.concat([head, bytes]);
}
