import { type Answer, answerOf } from './respond.ts';

/** Browsers ask at every page load; a change of the public address reaches them within this time. */
const CACHED = ['Cache-Control', 'public, max-age=300', 'Access-Control-Allow-Origin', '*'];

/**
 * What browsers and mobile clients want to know before they send. Exactly one integration: without it a client accepts
 * calls and sends none, with a second one it loads code from elsewhere (wire.md section 1.7). The same for every key, so
 * that nobody can find out which exist; a wrong one is refused with the first call.
 *
 * `publicUrl` is where clients reach this server. Without it they send where their own settings say: guessing it from the
 * request would announce the name a proxy uses.
 */
export function settingsAnswer(writeKey: string, publicUrl: string | undefined): Answer {
  const own = { apiKey: writeKey, ...(publicUrl === undefined ? {} : addressOf(publicUrl)) };
  const settings = {
    integrations: { 'Segment.io': own },
    plan: { track: { __default: { enabled: true, integrations: {} } } },
    // No reports about themselves: nobody here would read them.
    metrics: { sampleRate: 0 },
  };
  const { status, headers, body } = answerOf(200, JSON.stringify(settings));
  return { status, headers: [...headers, ...CACHED], body };
}

function addressOf(publicUrl: string): { apiHost: string; protocol: string } {
  const { protocol, host, pathname } = new URL(publicUrl);
  const path = pathname.replace(/\/+$/, '');
  return { apiHost: `${host}${path}/v1`, protocol: protocol.slice(0, -1) };
}
