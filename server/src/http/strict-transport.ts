import type { IncomingHttpHeaders } from 'node:http';

/** A year, which browsers begin anew with every answer. */
const HEADER = 'max-age=31536000';

/**
 * Which answers tell a browser to come back by https alone (HSTS, RFC 6797). A browser keeps to it for every port of the name, so it is
 * said only for names that `publicUrl` gives an https address, and not for whatever name a certificate may have. It is said only where
 * this server speaks https itself: behind a proxy it is the proxy's to say. docs/reference/ports.md, "What browsers are told".
 */
export class StrictTransport {
  readonly #names: ReadonlySet<string>;

  constructor({ publicUrls, isTls }: { readonly publicUrls: readonly string[]; readonly isTls: boolean }) {
    const urls = isTls ? publicUrls.map((url) => new URL(url)) : [];
    this.#names = new Set(
      urls.filter(({ protocol }) => protocol === 'https:').map(({ hostname }) => hostname),
    );
  }

  /** The value of the header; undefined where there is to be none. */
  headerFor({ host = '' }: IncomingHttpHeaders): string | undefined {
    if (this.#names.size === 0) return undefined;
    return this.#names.has(host.toLowerCase().replace(/:\d*$/, '')) ? HEADER : undefined;
  }
}
