import type { AlertMailbox } from '../model/alert.ts';

/** Hands mail to SMTP servers. */
export interface Mailer {
  /**
   * Hands one mail to the server of the mailbox, once, within 30 seconds. The server's address must be one
   * that the egress rules allow. A password is sent over TLS only. Never rejects: every failure is a
   * `MailResult`.
   */
  send(mail: Mail, mailbox: AlertMailbox): Promise<MailResult>;
}

export interface Mail {
  /** Becomes the `Message-ID`: the same mail sent twice has the same. */
  readonly id: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
}

export type MailResult =
  /** `answer`: what the server said when it took the mail. */
  | { readonly kind: 'taken'; readonly answer: string }
  /** `detail`: one sentence for the operator, with the server's answer if there was one. */
  | { readonly kind: 'failed'; readonly detail: string };
