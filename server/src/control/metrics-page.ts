import type { Control, ControlAnswer, ControlRequest } from '../ports/control.ts';
import type { Logger } from '../ports/logger.ts';
import { answerTo } from './answer.ts';
import { Problem } from './problem.ts';
import { SignIn, type SignInTools } from './sign-in.ts';

export interface MetricsPageOptions extends SignInTools {
  readonly logger: Logger;
  /** Nobody needs a token. */
  readonly isPublic: boolean;
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/**
 * `/metrics`, for any token there is, whatever its role. contract.md section 2. It goes without the framework of the control
 * API: whoever is only scraped every 15 seconds need not load it.
 */
export function createMetricsPage(options: MetricsPageOptions): Control {
  // Whoever guesses tokens here is counted apart from the control API; both counts are small.
  const signIn = new SignIn(options);
  return async (request) => {
    try {
      return await pageFor(request, signIn, options);
    } catch (error) {
      const { status, headers, body } = answerTo(error, request, options.logger);
      const more = error instanceof Problem ? headersOf(error) : {};
      return { status, headers: { ...headers, ...more }, body };
    }
  };
}

async function pageFor(
  { method, authorization, address }: ControlRequest,
  signIn: SignIn,
  { isPublic, contentType, text }: MetricsPageOptions,
): Promise<ControlAnswer> {
  if (method !== 'GET' && method !== 'HEAD') throw new Problem('method_not_allowed');
  if (!isPublic) signIn.caller(authorization, address, 'viewer');
  const headers = { 'Content-Type': contentType, 'Cache-Control': 'no-store' };
  return { status: 200, headers, body: await text() };
}

function headersOf({ status }: Problem): Record<string, string> {
  if (status === 405) return { Allow: 'GET, HEAD' };
  return status === 401 ? { 'WWW-Authenticate': 'Bearer realm="millrace"' } : {};
}
