import { createPrivateKey, X509Certificate } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { SecureContextOptions } from 'node:tls';
import { distrustOf } from '../model/file-rights.ts';
import { DAY, type Duration, MINUTE, type Monotonic, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';

/** Paths of PEM files, from the working directory. */
export interface TlsFiles {
  /** The certificate and those between it and the authority, in this order. */
  readonly cert: string;
  readonly key: string;
}

/** A certificate chain and its key, checked: the key is the certificate's. */
export interface KeyPair {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly validTo: Time;
}

/**
 * Interval at which the files are read, in ms. Reading finds changes behind symbolic links, which watching
 * misses.
 */
const CHECK_INTERVAL: Duration = MINUTE;

/** Automatic renewal happens a month before the end. This late, it has failed for some time. */
const EXPIRY_WARNING: Duration = 14 * DAY;
const WARNING_INTERVAL: Duration = DAY;

/**
 * Ciphers whose keys are made for each connection (forward secrecy): whoever records a connection and gets
 * hold of the key of the certificate later reads nothing. Those of TLS 1.3 all are. Of TLS 1.2 the ones with
 * CBC stay, for clients that know no better.
 */
const CIPHERS = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['ECDHE+AESGCM', 'ECDHE+CHACHA20', 'ECDHE+AES', '!aNULL'],
].join(':');

/**
 * The part of a TLS server's options that a new certificate replaces. Without ciphers Node would go back to
 * its own.
 */
export function secureContext({ cert, key }: KeyPair): SecureContextOptions {
  return { cert, key, ciphers: CIPHERS };
}

/** Rejects with an error whose message is one line that says what to do. */
export async function readKeyPair({ cert, key }: TlsFiles): Promise<KeyPair> {
  const [certText, keyText] = await Promise.all([readPem('cert', cert), readPem('key', key)]);
  const certificate = parsePem(
    () => new X509Certificate(certText),
    `tls.cert: ${cert} holds no certificate in PEM form: it begins with -----BEGIN CERTIFICATE-----`,
  );
  const privateKey = parsePem(
    () => createPrivateKey(keyText),
    `tls.key: ${key} holds no private key in PEM form, or one with a passphrase: it begins with -----BEGIN PRIVATE KEY-----`,
  );
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new Error(
      `tls.key: ${key} is not the key of the certificate in ${cert}: name the two files that were made together`,
    );
  }
  return { cert: certText, key: keyText, validTo: Date.parse(certificate.validTo) };
}

/** Links are followed: renewal and orchestrators put one in the place of the file. */
async function readPem(setting: 'cert' | 'key', path: string): Promise<Buffer> {
  let problem: string | undefined;
  try {
    await using file = await open(path);
    problem = setting === 'key' ? distrustOf(await file.stat(), process.getuid?.()) : undefined;
    if (problem === undefined) return await file.readFile();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const why =
      { ENOENT: 'does not exist', EACCES: 'may not be read by this user', EISDIR: 'is a folder' }[
        String(code)
      ] ?? `cannot be read (${error instanceof Error ? error.message : String(error)})`;
    throw new Error(`tls.${setting}: ${path} ${why}`, { cause: error });
  }
  throw new Error(
    `tls.${setting}: ${path} ${problem}: give it to this user or root, and take the right to write from others (chmod o-w)`,
  );
}

function parsePem<T>(read: () => T, message: string): T {
  try {
    return read();
  } catch (error) {
    throw new Error(message, { cause: error });
  }
}

export interface CertificateReloaderOptions {
  readonly files: TlsFiles;
  /** The certificate and key that are served now. */
  readonly pair: KeyPair;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Serves this from now on; connections that are open keep what they have. */
  readonly onReload: (pair: KeyPair) => void;
}

/**
 * Reads the files every minute, so that a renewed certificate is served without a restart. Files that do not
 * match, as when only one is written yet, are logged and read again later; until then the old pair is served.
 * A certificate that is about to expire is logged once a day.
 */
export class CertificateReloader {
  readonly #options: CertificateReloaderOptions;
  #pair: KeyPair;
  #cancel = () => {};
  #isStopped = false;
  #problem = '';
  #nextWarningAt: Monotonic = Number.NEGATIVE_INFINITY;

  constructor(tools: CertificateReloaderOptions) {
    this.#options = tools;
    this.#pair = tools.pair;
  }

  start(): void {
    this.#warnOfExpiry();
    this.#scheduleCheck();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #scheduleCheck(): void {
    if (this.#isStopped) return;
    const { clock } = this.#options;
    this.#cancel = clock.after(CHECK_INTERVAL, () => {
      void this.#check().then(() => this.#scheduleCheck());
    });
  }

  /** Never rejects. */
  async #check(): Promise<void> {
    const { files, logger, onReload: renewed } = this.#options;
    try {
      const pair = await readKeyPair(files);
      this.#problem = '';
      if (this.#isStopped) return;
      if (!pair.cert.equals(this.#pair.cert) || !pair.key.equals(this.#pair.key)) {
        renewed(pair);
        this.#pair = pair;
        this.#nextWarningAt = Number.NEGATIVE_INFINITY;
        logger.info({ validTo: new Date(pair.validTo).toISOString() }, 'tls.renewed');
      }
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== this.#problem) logger.error({ problem }, 'tls.not_renewed');
      this.#problem = problem;
    }
    this.#warnOfExpiry();
  }

  #warnOfExpiry(): void {
    const { clock, logger } = this.#options;
    const now = clock.now();
    const passed = clock.monotonic();
    if (passed < this.#nextWarningAt || this.#pair.validTo - now > EXPIRY_WARNING) return;
    this.#nextWarningAt = passed + WARNING_INTERVAL;
    const facts = { validTo: new Date(this.#pair.validTo).toISOString() };
    if (this.#pair.validTo > now) logger.warn(facts, 'tls.expires_soon');
    else logger.error(facts, 'tls.expired');
  }
}
