import { useQuery } from '@tanstack/react-query';
import { destinationsQuery } from '../../api/queries.ts';
import { Checks } from '../../ui/form-fields.tsx';
import { visibleLine } from '../../ui/visible-text.ts';

interface ToldProps {
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function Told({ chosen, onChange }: ToldProps) {
  const { data: destinations = [] } = useQuery(destinationsQuery);
  return (
    <fieldset className="plain stack-s">
      <legend className="lbl">Destinations that are told</legend>
      <Checks
        names={destinations.map(({ name }) => name)}
        chosen={chosen}
        labelOf={visibleLine}
        onChange={onChange}
      >
        {destinations.length === 0 && <span className="dim">There is no destination yet.</span>}
      </Checks>
    </fieldset>
  );
}
