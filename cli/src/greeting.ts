import { resolve } from 'node:path';
import type { Paint } from './paint.ts';

export interface Greeting {
  readonly version: string;
  /** The URL for calls, as a client on this machine writes it. */
  readonly url: string;
  /** Signs in to the console, once. */
  readonly consoleUrl: string;
  readonly writeKey: string;
  readonly receiverUrl: string;
  /** The URL to which the receiver forwards webhooks. */
  readonly forwardTo?: string | undefined;
  readonly secret: string;
  readonly data: string;
}

/**
 * The text that `dev` prints when it is ready: its addresses, and one line to paste into another terminal.
 */
export function greeting(facts: Greeting, paint: Paint): string {
  const rows = [
    ['receiving API', facts.url, `write key ${facts.writeKey}`],
    ['local-receiver', facts.receiverUrl, `shared secret ${facts.secret}`],
    ...(facts.forwardTo === undefined ? [] : [['forwards to', facts.forwardTo, ''] as const]),
    ['data folder', resolve(facts.data), ''],
  ] as const;
  const urls = Math.max(facts.url.length, facts.receiverUrl.length);
  return [
    paint.bold(`Millrace ${facts.version} is ready on ${facts.url}`),
    '',
    ...rows.map(([what, where, detail]) =>
      `  ${what.padEnd(14)}  ${paint.cyan(where.padEnd(detail ? urls : 0))}  ${detail}`.trimEnd(),
    ),
    '',
    'Send an event from another terminal:',
    '',
    `  ${paint.bold(curlLine(facts.url, facts.writeKey))}`,
    '',
    'Send from a page in a browser, with the library that it has:',
    '',
    `  ${paint.bold(browserLine(facts.url, facts.writeKey))}`,
    '',
    'Look at them in a browser (this link signs you in, once):',
    '',
    `  ${paint.cyan(facts.consoleUrl)}`,
    '',
    paint.dim('Events and their deliveries appear below. Ctrl-C stops everything.'),
    '',
    '',
  ].join('\n');
}

/**
 * A line to paste into sh, bash or zsh. The quotes matter: an address in brackets would else be a file
 * pattern.
 */
export function curlLine(url: string, writeKey: string): string {
  const target = url.includes('[') ? `'${url}/v1/track'` : `${url}/v1/track`;
  const body = '{"event":"Order Placed","userId":"u1","properties":{"total":9}}';
  return `curl -u ${writeKey}: ${target} -d '${body}'`;
}

/** The settings of this server tell the library where to send. */
function browserLine(url: string, writeKey: string): string {
  return `AnalyticsBrowser.load({ writeKey: '${writeKey}', cdnURL: '${url}' })`;
}

/**
 * The address to type on this machine. A server that listens on every address reports one that clients should
 * not use, such as `0.0.0.0`.
 */
export function localUrl(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
