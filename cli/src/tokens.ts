import { type AskedFor, answered } from './answered.ts';
import type { ControlFlags } from './control-api.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { table } from './table.ts';

export interface TokenOptions extends ControlFlags {
  readonly json?: boolean;
}

export interface NamedTokenOptions extends TokenOptions {
  /** The argument of the verb. */
  readonly name: string;
}

type Answer = ReadonlyMap<string, unknown>;

export interface CreateTokenOptions extends NamedTokenOptions {
  readonly role: string;
  /** ISO 8601. */
  readonly expires?: string;
  readonly source: readonly string[];
  readonly destination: readonly string[];
  readonly bodies: boolean;
}

/** `millrace token create NAME --role ROLE`: prints the token alone on stdout, for scripts to capture. */
export async function createToken(options: CreateTokenOptions, context: RunContext): Promise<ExitCode> {
  const { name, role, expires, source, destination, bodies } = options;
  const wish = {
    name,
    role,
    expiresAt: expires,
    sources: source.length === 0 ? undefined : source,
    destinations: destination.length === 0 ? undefined : destination,
    bodies: bodies ? undefined : false,
  };
  return await ask(options, context, {
    request: { path: 'tokens', method: 'POST', body: wish },
    said: (value) => {
      const until = expires === undefined ? '' : `, good until ${expires}`;
      context.err.write(
        `millrace: made the token ${name} with the role ${role}${until}. It is shown this once: keep it, and give it to ` +
          'millrace with --token or MILLRACE_ADMIN_TOKEN.\n',
      );
      return `${String(value.get('token'))}\n`;
    },
  });
}

/** `millrace token list`. */
export async function listTokens(options: TokenOptions, context: RunContext): Promise<ExitCode> {
  const paint = paintFor(context.out, context.env);
  return await ask(options, context, {
    request: { path: 'tokens', method: 'GET', query: { limit: '500' } },
    said: (value) => {
      const data = value.get('data');
      const rows = (Array.isArray(data) ? data : []).map((token: Readonly<Record<string, unknown>>) => [
        { text: String(token['name']) },
        { text: String(token['role']) },
        { text: `…${String(token['hint'])}` },
        { text: String(token['createdAt']) },
        { text: String(token['expiresAt'] ?? '') },
        { text: reachOf(token) },
      ]);
      if (rows.length === 0) return 'No tokens but that of the configuration or of the data folder.\n';
      const headings = ['name', 'role', 'ends in', 'made', 'good until', 'for'].map((title) => ({
        title,
        align: 'left' as const,
      }));
      return `${table(headings, rows, paint).join('\n')}\n`;
    },
  });
}

/** `millrace token revoke NAME`: the token stops working at once. */
export async function revokeToken(options: NamedTokenOptions, context: RunContext): Promise<ExitCode> {
  const { name } = options;
  return await ask(options, context, {
    request: { path: `tokens/${encodeURIComponent(name)}`, method: 'DELETE' },
    said: () => `${name} is revoked.\n`,
  });
}

/** The limits of a token in words; none for one that may do all that its role may. */
function reachOf({ sources, destinations, bodies }: Readonly<Record<string, unknown>>): string {
  const names = [sources, destinations].flatMap((list) => (Array.isArray(list) ? list.map(String) : []));
  return [...names, ...(bodies === false ? ['no bodies'] : [])].join(', ');
}

async function ask(
  options: TokenOptions,
  context: RunContext,
  { request, said }: { readonly request: AskedFor; readonly said: (value: Answer) => string },
): Promise<ExitCode> {
  const reply = await answered(options, context, request);
  if (typeof reply === 'number') return reply;
  context.out.write(options.json ? `${reply.text}\n` : said(new Map(Object.entries(Object(reply.value)))));
  return 0;
}
