import { Client } from '@millrace/client';
import type { Activity, App, Config } from '@millrace/server';
import { systemClock } from './clock.ts';
import { readConfiguration, type ServerFlags } from './configuration.ts';
import { createDisplay, type Display } from './display.ts';
import { greeting, localUrl } from './greeting.ts';
import { happeningLine, isFailure } from './happening-line.ts';
import { createLineLogger } from './line-logger.ts';
import { type LocalReceiver, startLocalReceiver } from './local-receiver.ts';
import { sentences } from './notices.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { serve } from './serving.ts';
import type { SignatureVerdict } from './signature.ts';

const WRITE_KEY = 'dev';
const SECRET = 'dev-secret';
const DESTINATION = 'local-receiver';

/** Lines per second. A person cannot read more, and each line costs the server a write to the terminal. */
const LINES_PER_SECOND = 40;
const FAILURES_PER_SECOND = 20;

interface DevOptions extends ServerFlags {
  /** Sends one call of every type once the server is ready. */
  readonly demo?: boolean;
  /** The program that gets the receiver's webhooks. Its answers become the receiver's answers. */
  readonly forwardTo?: URL;
}

/**
 * `millrace dev`: runs server and receiver on this machine, and prints each event and delivery as a line on
 * stdout. spec/contract.md, "Verbs that run a server".
 */
export async function dev(options: DevOptions, context: RunContext): Promise<ExitCode> {
  const loaded = readConfiguration({ flags: quiet(options, context.env), defaultHost: '127.0.0.1' }, context);
  if (!loaded) return 2;
  if (context.env['MILLRACE_CONFIG']) {
    context.err.write('millrace: MILLRACE_CONFIG is set, but `dev` reads no file; `millrace start` does.\n');
  }
  const receiver = await startLocalReceiver(SECRET, options.forwardTo);
  const config = devConfig(loaded.config, receiver.url);
  const display = liveDisplay(context);
  const logger = createLineLogger({
    level: config.log,
    paint: paintFor(context.err, context.env),
    now: systemClock.now,
    write: (line) => context.err.write(line),
  });
  const observer = (happening: Activity) => display.show(withSignature(happening, receiver));
  const onReady = (app: App) => {
    greet({ app, receiver, config, forwardTo: options.forwardTo }, context);
    if (options.demo) void sendDemo(localUrl(app.url), WRITE_KEY);
  };
  try {
    return await serve(
      { config, app: { logger, observer }, notices: sentences(context.err), onReady },
      context,
    );
  } finally {
    // The receiver stops after the server: the last deliveries still need it.
    await receiver.stop();
    display.stop();
  }
}

/** Turns the log off, because a person at `dev` wants events. `--log` and MILLRACE_LOG turn it on again. */
function quiet(options: ServerFlags, env: NodeJS.ProcessEnv): ServerFlags {
  return options.log === undefined && env['MILLRACE_LOG'] === undefined
    ? { ...options, log: 'warn' }
    : options;
}

function devConfig(loaded: Config, receiverUrl: string): Config {
  return {
    ...loaded,
    egress: { allow: ['127.0.0.0/8', '::1/128'] },
    sources: [
      {
        ...{ name: 'dev', writeKeys: [WRITE_KEY] },
        ...{ enabled: true, mode: 'standard', whenDisabled: 'refuse', ip: 'keep', trust: 'server' },
      },
    ],
    destinations: [
      {
        name: DESTINATION,
        type: 'webhooks',
        sources: ['dev'],
        enabled: true,
        settings: {
          endpoints: [{ url: receiverUrl, headers: {} }],
          sharedSecret: SECRET,
          format: 'documented',
        },
      },
    ],
  };
}

interface Shown {
  readonly happening: Activity;
  readonly signature: SignatureVerdict | undefined;
}

function liveDisplay({ out, env }: RunContext): Display<Shown> {
  const paint = paintFor(out, env);
  return createDisplay<Shown>({
    output: out,
    clock: systemClock,
    perSecond: LINES_PER_SECOND,
    urgentPerSecond: FAILURES_PER_SECOND,
    isUrgent: ({ happening }) => isFailure(happening),
    draw: ({ happening, signature }, now) => happeningLine(happening, { now, paint, signature }),
  });
}

/** Called for every delivery, shown or not: taking a verdict removes it from the receiver's memory. */
function withSignature(happening: Activity, receiver: LocalReceiver): Shown {
  const sentHere = happening.kind === 'settled' && happening.destination === DESTINATION;
  return { happening, signature: sentHere ? receiver.take(happening.event.messageId) : undefined };
}

function greet(
  running: { app: App; receiver: LocalReceiver; config: Config; forwardTo: URL | undefined },
  { out, env, version }: RunContext,
): void {
  const facts = {
    version,
    url: localUrl(running.app.url),
    consoleUrl: localUrl(running.app.createSignInLink()),
    writeKey: WRITE_KEY,
    receiverUrl: running.receiver.url,
    forwardTo: running.forwardTo?.href,
    secret: SECRET,
    data: running.config.data,
  };
  out.write(greeting(facts, paintFor(out, env)));
}

/** Sends one call of every type with the client library. Resolves when each is accepted or failed. */
async function sendDemo(endpoint: string, writeKey: string): Promise<void> {
  const client = new Client(writeKey, { endpoint });
  const userId = 'demo-user';
  client.identify({ userId, traits: { name: 'Ada', plan: 'pro' } });
  client.group({ userId, groupId: 'demo-group', traits: { name: 'Analytical Engines' } });
  client.page({ userId, name: 'Pricing', properties: { url: 'https://example.com/pricing' } });
  client.screen({ userId, name: 'Cart' });
  client.track({ userId, event: 'Order Placed', properties: { total: 9, currency: 'EUR' } });
  client.alias({ userId, previousId: 'demo-visitor' });
  await client.close();
}
