import type { IncomingHttpHeaders } from 'node:http';

/** A year, which browsers begin anew with every answer. */
const HEADER = 'max-age=31536000';

/**
 * Decides which answers tell a browser to come back by https alone (HSTS, RFC 6797). A browser applies it to
 * every port of the name, so it is sent only for names that `publicUrl` gives an https address, and not for
 * every name of a certificate. It is sent only if this server speaks https itself: behind a proxy that is the
 * proxy's task. docs/reference/ports.md, "What browsers are told".
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
