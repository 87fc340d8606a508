import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { AlertMailbox } from '../../model/alert.ts';
import type { Mailer, MailResult } from '../../ports/mailer.ts';

const STEP_LIMIT = 10_000;

/** For the whole mail. */
const MAIL_LIMIT = 30_000;

export interface MailerOptions {
  /** Opens a connection to an allowed address. */
  readonly open: (hostname: string, port: number, limit: number) => Promise<Socket>;
  readonly trust: () => SecureContext;
  /** For the connection, for the greeting and for each silence; ten seconds if absent. */
  readonly stepLimit?: number;
}

/** Hands mail over with nodemailer, on connections that the egress rules allow. */
export function createMailer({ open, trust, stepLimit = STEP_LIMIT }: MailerOptions): Mailer {
  return {
    async send({ id, subject, text }, mailbox) {
      const server = serverOf(mailbox.server);
      if (server === undefined) return { kind: 'failed', detail: `${mailbox.server} ${NO_ADDRESS}` };
      const { hostname, port, isSecure } = server;
      const host = hostname.replace(/^\[|\]$/g, '');
      let socket: Socket | undefined;
      const limit = Promise.withResolvers<MailResult>();
      const timer = setTimeout(() => {
        socket?.destroy();
        limit.resolve({
          kind: 'failed',
          detail: `${mailbox.server} took longer than ${MAIL_LIMIT / 1000} seconds`,
        });
      }, MAIL_LIMIT);
      const hand = async (): Promise<MailResult> => {
        socket = await open(hostname, port, stepLimit);
        // Loaded with the first mail: few servers send any.
        const { createTransport } = await import('nodemailer');
        const transport = createTransport({
          host,
          port,
          connection: socket,
          secure: isSecure,
          // A password never goes over a connection that others can read.
          requireTLS: mailbox.password !== undefined,
          tls: { secureContext: trust(), rejectUnauthorized: true },
          greetingTimeout: stepLimit,
          // Longer than for the greeting, whose failure says more.
          socketTimeout: 2 * stepLimit,
          auth: mailbox.user === undefined ? undefined : { user: mailbox.user, pass: mailbox.password ?? '' },
        });
        const { from, to } = mailbox;
        const messageId = `<${id}@millrace>`;
        const { response, rejected } = await transport.sendMail({
          from,
          to: [...to],
          subject,
          text,
          messageId,
        });
        // Not a failure: a repeat would send it twice to those who have it.
        const refused = rejected.length === 0 ? '' : `; refused for ${rejected.join(', ')}`;
        return { kind: 'taken', answer: `${response}${refused}` };
      };
      try {
        return await Promise.race([hand(), limit.promise]);
      } catch (error) {
        return { kind: 'failed', detail: `${mailbox.server}: ${failureText(error, mailbox)}` };
      } finally {
        clearTimeout(timer);
        socket?.destroy();
      }
    },
  };
}

const NO_ADDRESS = 'is not the address of a server: write smtp:// or smtps://, a host and a port up to 65535';

interface MailServer {
  readonly hostname: string;
  readonly port: number;
  readonly isSecure: boolean;
}

/**
 * The parts of `smtp://host:port`; undefined where an alert was stored before its address was looked at. 587
 * and 465 are the ports for handing mail in (RFC 8314).
 */
function serverOf(server: string): MailServer | undefined {
  const url = URL.parse(server);
  if (url === null) return undefined;
  const { protocol, hostname, port } = url;
  const isSecure = protocol === 'smtps:';
  return { hostname, port: Number(port || (isSecure ? 465 : 587)), isSecure };
}

/** The message of an error without the password, which a server may repeat. */
function failureText(error: unknown, { password }: AlertMailbox): string {
  const text = error instanceof Error ? error.message : String(error);
  return password === undefined ? text : text.replaceAll(password, '…');
}
