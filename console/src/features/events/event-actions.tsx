import { useQuery } from '@tanstack/react-query';
import { Send } from 'lucide-react';
import { useState } from 'react';
import { keyOf, sourcesQuery } from '../../api/queries.ts';
import { sessionQuery } from '../../api/session.ts';
import { Button, CopyButton } from '../../ui/controls.tsx';
import { useShortcut } from '../../ui/shortcuts.ts';
import { asCurl } from './curl.ts';
import type { AcceptedEvent } from './queries.ts';
import { RedeliverDialog } from './redeliver-dialog.tsx';

/** Buttons to copy an event as a curl command and to resend it. */
export function EventActions({ entry }: { readonly entry: AcceptedEvent }) {
  const [isAsking, setIsAsking] = useState(false);
  const { data: sources = [] } = useQuery(sourcesQuery);
  const { data: session } = useQuery(sessionQuery);
  const mayChange = session?.role !== 'viewer';
  const key = keyOf(sources.find(({ name }) => name === entry.source));
  useShortcut('r', 'Resend the event (asks first)', () => mayChange && setIsAsking(true));
  return (
    <>
      <CopyButton
        kind="plain"
        isTall
        label="Copy as curl"
        text={() => asCurl(entry.event as { type?: unknown }, key)}
      />
      <Button
        kind="primary"
        disabled={!mayChange}
        title={mayChange ? 'Sends the event to a destination once more' : 'Needs the role editor'}
        onClick={() => setIsAsking(true)}
      >
        <Send aria-hidden />
        Resend…
      </Button>
      {isAsking && (
        <RedeliverDialog
          messageId={entry.event.messageId}
          deliveries={entry.deliveries}
          onClose={() => setIsAsking(false)}
        />
      )}
    </>
  );
}
