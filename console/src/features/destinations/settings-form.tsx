import { useQuery } from '@tanstack/react-query';
import type { Tagged } from '../../api/client.ts';
import { FileNotice, useUntilNextStart } from '../../editing/file-records.tsx';
import { Overtaken } from '../../editing/overtaken.tsx';
import { RestoredNotice } from '../../editing/restored-notice.tsx';
import { useEditedRecord } from '../../editing/use-edited-record.ts';
import { toast } from '../../ui/toast.tsx';
import { DestinationForm } from './destination-form.tsx';
import { DESTINATION_FORM, DESTINATION_LABELS, type Destination } from './form.ts';
import { destinationStatusQuery } from './queries.ts';
import { VerifySnippets } from './verify.tsx';

/** The settings of a stored destination. */
export function SettingsForm({ stored }: { readonly stored: Tagged<Destination> }) {
  const { base, draft, overtaken, restored, put, restart, save } = useEditedRecord(DESTINATION_FORM, stored);
  const record = { list: 'destinations', name: stored.record.name } as const;
  const until = useUntilNextStart(record);
  const { data: status } = useQuery(destinationStatusQuery(stored.record.name));
  return (
    <div className="side">
      <div className="stack">
        <FileNotice {...record} />
        <RestoredNotice restored={restored} onDrop={() => restart()} />
        {overtaken !== undefined && (
          <Overtaken noun="destination" versions={overtaken} labels={DESTINATION_LABELS} onGoOn={restart} />
        )}
        <DestinationForm
          initial={base}
          draft={draft}
          action={`Save changes${until}`}
          publicKey={status?.publicKey}
          onChange={put}
          onSave={async () => {
            await save();
            toast(`Saved${until}. The next request is made with it.`);
          }}
        />
      </div>
      <VerifySnippets />
    </div>
  );
}
