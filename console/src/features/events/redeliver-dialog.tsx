import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { answer, api } from '../../api/client.ts';
import { Field, Select } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { toast } from '../../ui/toast.tsx';
import type { DeliveryTrace } from './queries.ts';

interface RedeliverDialogProps {
  readonly messageId: string;
  readonly deliveries: readonly DeliveryTrace[];
  readonly onClose: () => void;
}

/** Asks before an event is sent once more: a receiver that took it already gets it twice. */
export function RedeliverDialog({ messageId, deliveries, onClose }: RedeliverDialogProps) {
  const settled = deliveries.filter(({ state }) => state !== 'pending' && state !== 'retrying');
  const [id, setId] = useState((settled.find(({ state }) => state === 'dead') ?? settled[0])?.id ?? '');
  const chosen = settled.find((delivery) => delivery.id === id);
  const queryClient = useQueryClient();
  const redeliver = async (): Promise<void> => {
    if (chosen === undefined) return;
    const body = { destination: chosen.destination, ids: [chosen.id], dryRun: false };
    await answer(api.POST('/api/v1/redeliveries', { body }));
    await queryClient.invalidateQueries({ queryKey: ['events', messageId] });
    toast(`The event is sent to ${chosen.destination} once more.`);
  };
  return (
    <ConfirmDialog title="Send this event once more?" action="Resend" onConfirm={redeliver} onClose={onClose}>
      {chosen === undefined ? (
        <p>None of its deliveries has ended yet: each is still sent, or tried again, by itself.</p>
      ) : (
        <div className="stack-s">
          <Field label="Destination">
            {(control) => (
              <Select
                {...control}
                value={id}
                onChange={setId}
                options={settled.map((one) => ({ value: one.id, label: `${one.destination}, ${one.state}` }))}
              />
            )}
          </Field>
          <p className="soft">
            {chosen.state === 'dead'
              ? `1 dead letter of ${chosen.destination} gets a new retry window of four hours.`
              : chosen.state === 'dropped'
                ? `${chosen.destination} dropped this event, and is asked once more.`
                : `${chosen.destination} has this event already and gets it a second time, with the same body and Webhook-Id.`}
          </p>
        </div>
      )}
    </ConfirmDialog>
  );
}
